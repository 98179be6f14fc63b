#include "capture/eval/prompt_runs.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <numeric>
#include <utility>

#include "analysis/base/core/error.h"
#include "analysis/policy/kit/policy_catalog.h"
#include "analysis/policy/policy_files.h"
#include "analysis/study/answer_score.h"
#include "analysis/trace/loops.h"
#include "capture/run/capture_input.h"

namespace kvloupe {

namespace {

constexpr double kTiny = 1e-300;  // norms below are none

/// Tokens from `first` to before `end` that both have.
struct Overlap {
  Overlap(const HiddenStates& states, int from, const at::Tensor& hidden)
      : first(std::max(from, states.first())),
        end(std::min(from + static_cast<int>(hidden.size(1)), states.first() + states.count())) {}
  bool empty() const { return first >= end; }
  int first, end;
};

/// As a results file has it: more digits would say nothing, but there are many of these numbers.
double six_digits(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.6g", value);
  return std::strtod(text, nullptr);
}

}  // namespace

HiddenStates::HiddenStates(const Transformer& model, int first, int count)
    : first_(first),
      states_(at::empty({model.config().num_layers, count, model.config().hidden_size},
                        model.options().dtype().toScalarType())) {}

std::int64_t HiddenStates::bytes(const Transformer& model, int count) {
  const auto size = static_cast<std::int64_t>(model.options().dtype().itemsize());
  return model.config().num_layers * count * model.config().hidden_size * size;
}

void HiddenStates::keep(int layer, int first, const at::Tensor& hidden) {
  const Overlap own(*this, first, hidden);
  if (own.empty()) return;
  states_[layer]
      .slice(0, own.first - first_, own.end - first_)
      .copy_(hidden[0].slice(0, own.first - first, own.end - first));
}

at::Tensor HiddenStates::rows(int layer, int first, int m) const {
  return states_[layer].slice(0, first - first_, first - first_ + m);
}

HiddenDrift::HiddenDrift(const Transformer& model, const HiddenStates& full)
    : model_(model), full_(full), layers_(static_cast<std::size_t>(model.config().num_layers)) {}

void HiddenDrift::Sums::add(const at::Tensor& other, const at::Tensor& full) {
  const at::Tensor a = other.to(at::kCPU, at::kDouble);
  const at::Tensor b = full.to(at::kCPU, at::kDouble);
  const at::Tensor apart = (a - b).square().sum(-1);
  const at::Tensor norm_a = a.square().sum(-1).sqrt();
  const at::Tensor norm_b = b.square().sum(-1).sqrt();
  distance += (apart.sqrt() / norm_b.clamp_min(kTiny)).sum().item<double>();
  // 1 − cos by the law of cosines: exactly 0 for equal states, and small ones do not cancel.
  const at::Tensor turned = (apart - (norm_a - norm_b).square()).clamp_min(0.0);
  cosine += (turned / (2.0 * norm_a * norm_b).clamp_min(kTiny)).sum().item<double>();
}

void HiddenDrift::add(int layer, int first, const at::Tensor& hidden) {
  const Overlap both(full_, first, hidden);
  if (both.empty()) return;
  const at::Tensor other = hidden[0].slice(0, both.first - first, both.end - first);
  const at::Tensor full = full_.rows(layer, both.first, both.end - both.first);
  layers_[static_cast<std::size_t>(layer)].add(other, full);
  if (layer + 1 < static_cast<int>(layers_.size())) return;
  normed_.add(model_.last_norm(other), model_.last_norm(full.to(other.device())));
}

void HiddenDrift::enter_means(EvaluationRun& run) const {
  const auto mean = [&](double sum) { return six_digits(sum / full_.count()); };
  for (const Sums& layer : layers_) {
    run.hidden.layers.push_back(mean(layer.distance));
    run.hidden_cosine.layers.push_back(mean(layer.cosine));
  }
  run.hidden.normed = mean(normed_.distance);
  run.hidden_cosine.normed = mean(normed_.cosine);
}

namespace {

/// Log-probabilities of the next tokens, float32 [m,vocab], in the computer's memory.
at::Tensor log_probabilities(const Transformer& model, const at::Tensor& hidden) {
  return at::log_softmax(model.logits(hidden)[0].to(at::kFloat), -1).to(at::kCPU);
}

double mean(const std::vector<double>& losses) {
  if (losses.empty()) return 0.0;
  return std::accumulate(losses.begin(), losses.end(), 0.0) / static_cast<double>(losses.size());
}

bool is_last(const Transformer& model, int layer) { return layer + 1 == model.config().num_layers; }

}  // namespace

Perplexity::Perplexity(EvalRun full, std::span<const std::int32_t> ids, std::int64_t room,
                       const Progress& progress,
                       const std::function<void(const std::string&)>& note)
    : ids_(ids), losses_(ids.size() - 1) {
  const Transformer& model = full.model();
  const int length = static_cast<int>(ids.size());
  const auto fits = [&](std::int64_t bytes, const char* what, const char* missing) {
    if (bytes <= room) {
      room -= bytes;
      return true;
    }
    if (note) {
      note("the full cache's " + std::string(what) + " over " + std::to_string(length) +
           " tokens need more than the 1 GiB that is reserved: no " + missing);
    }
    return false;
  };
  if (fits(std::int64_t{4} * length * model.config().vocab_size, "distributions",
           "KL and no share of equal tokens")) {
    log_probabilities_ = at::empty({length, model.config().vocab_size}, at::kFloat);
  }
  if (fits(HiddenStates::bytes(model, length), "hidden states", "distance per layer")) {
    hidden_.emplace(model, 0, length);
  }
  full.read(ids, true, progress, [&](int layer, int first, const at::Tensor& hidden) {
    if (hidden_) hidden_->keep(layer, first, hidden);
    if (!is_last(model, layer)) return;
    const at::Tensor rows = log_probabilities(model, hidden);
    enter_losses(rows, first, losses_);
    if (log_probabilities_.defined()) {
      log_probabilities_.slice(0, first, first + rows.size(0)).copy_(rows);
    }
  });
}

void Perplexity::enter_losses(const at::Tensor& rows, int first,
                              std::vector<double>& losses) const {
  for (std::int64_t i = 0; i < rows.size(0); ++i) {
    const std::size_t token = static_cast<std::size_t>(first + i);
    if (token < losses.size()) losses[token] = -rows[i][ids_[token + 1]].item<double>();
  }
}

double Perplexity::loss() const { return mean(losses_); }

void Perplexity::compare(EvalRun run, const Progress& progress, EvaluationRun& result) const {
  const Transformer& model = run.model();
  std::vector<double> losses = losses_;
  double kl = 0.0, differ = 0.0;
  std::optional<HiddenDrift> drift;
  if (hidden_) drift.emplace(model, *hidden_);
  run.read(ids_, true, progress, [&](int layer, int first, const at::Tensor& hidden) {
    if (drift) drift->add(layer, first, hidden);
    if (!is_last(model, layer)) return;
    const at::Tensor rows = log_probabilities(model, hidden);
    enter_losses(rows, first, losses);
    if (!log_probabilities_.defined()) return;
    const at::Tensor full = log_probabilities_.slice(0, first, first + rows.size(0));
    kl += (full.exp() * (full - rows)).sum().item<double>();
    differ += full.argmax(-1).ne(rows.argmax(-1)).sum().item<double>();
  });
  const auto tokens = static_cast<double>(ids_.size());
  result.loss = mean(losses);
  result.loss_difference = result.loss - loss();
  if (log_probabilities_.defined()) {
    result.kl = kl / tokens;
    result.same_top1 = (tokens - differ) / tokens;
  }
  if (drift) drift->enter_means(result);
}

namespace {

/// The full cache's run fills the recording, the others begin with it.
EvalRun start(const RunningModel& model, const EvalSetting& setting, int prompt_length,
              int most_tokens, Recording& recording, const StructuralSequence& structure,
              const SequenceTables* twice = nullptr) {
  EvalRun::Options options;
  options.most_tokens = most_tokens;
  options.block = std::min(model.block, prompt_length);
  if (setting.budget) {
    options.loop = ClosedLoop{setting.policy,  setting.entries(prompt_length),
                              model.positions, twice,
                              prompt_length,   &structure.flags()};
    options.shared = &recording;
  } else {
    options.record = &recording;
  }
  return {*model.transformer, *model.info, options};
}

/// The common beginning of the runs of one prompt: up to the largest budget nothing is cut.
Recording recording_for(const RunningModel& model, int prompt_length, int most_entries) {
  return {std::min(most_entries, prompt_length - 1), model.most_shared};
}

}  // namespace

EvaluationRun EvalSetting::named_run() const {
  EvaluationRun run;
  run.policy = policy.text();
  run.budget = budget ? budget->text() : std::string(kFullCache);
  run.policy_files = policy_files(policy);
  if (probe) run.probe = probe_name(*probe);
  return run;
}

int EvalSetting::entries(int prompt_length) const {
  return budget ? budget->resolve(prompt_length) : prompt_length;
}

EvalSetting EvalSetting::full_cache() { return {parse_policy("full"), {}}; }

EvalSetting EvalSetting::of(const std::string& policy, const std::string& budget,
                            const std::string& probe) {
  EvalSetting setting{parse_policy(policy), {}};
  if (has_trait(setting.policy, &PolicyTraits::reads_probe))
    setting.probe = probe_words().at(probe);
  if (budget != kFullCache) setting.budget = parse_budget(budget);
  return setting;
}

NeedleRuns::NeedleRuns(const RunningModel& model, std::vector<NeedleTask> tasks, int answer_tokens,
                       bool context_only, int most_entries, const Progress& progress)
    : model_(model),
      tasks_(std::move(tasks)),
      answer_tokens_(answer_tokens),
      context_only_(context_only),
      recording_(recording_for(model, tokens(), most_entries)) {
  for (const NeedleTask& task : tasks_) {
    check_vocabulary(task.tokens.ids, *model.config, model.folder);
    full_.emplace_back(*model.transformer, static_cast<int>(task.tokens.ids.size()) - 1, 1);
  }
  // Every other run is compared with this one, in the state that the answer's first token comes
  // from.
  full_answers_ =
      answers(EvalSetting::full_cache(), progress,
              [&](std::size_t question, int layer, int first, const at::Tensor& hidden) {
                full_[question].keep(layer, first, hidden);
              });
}

std::vector<EvaluationRun> NeedleRuns::run(const EvalSetting& setting, const Progress& progress) {
  if (setting.probe) know_probe(*setting.probe, progress);
  std::vector<HiddenDrift> drifts;
  for (const HiddenStates& full : full_) drifts.emplace_back(*model_.transformer, full);
  const std::vector<Answer> said =
      !setting.budget
          ? full_answers_
          : answers(setting, progress,
                    [&](std::size_t question, int layer, int first, const at::Tensor& hidden) {
                      drifts[question].add(layer, first, hidden);
                    });
  std::vector<EvaluationRun> runs;
  for (std::size_t question = 0; question < tasks_.size(); ++question) {
    EvaluationRun& run = runs.emplace_back(setting.named_run());
    run.tokens = tokens(question);
    run.entries = setting.budget ? setting.entries(tokens()) : tokens(question);
    run.expected = tasks_[question].answer;
    run.answer = said[question].text;
    run.loop_begin = said[question].loop_begin;
    run.correct = first_number(run.answer) == run.expected ? 1.0 : 0.0;
    if (setting.budget) drifts[question].enter_means(run);
  }
  return runs;
}

/// The model's text after each question; `on_hidden` is for the prompts.
std::vector<NeedleRuns::Answer> NeedleRuns::answers(const EvalSetting& setting,
                                                    const Progress& progress,
                                                    const QuestionHook& on_hidden) {
  int longest = 0;
  for (std::size_t i = 0; i < tasks_.size(); ++i) longest = std::max(longest, tokens(i));
  const auto common = static_cast<std::size_t>(context_only_ ? tasks_[0].question_begin : tokens());
  TokenSequence whole = tasks_[0].tokens;
  StructuralSequence structure(whole, *model_.tokenizer);
  std::optional<EvalRun> run;
  const auto hook_of = [&](std::size_t question) {
    return [&on_hidden, question](int layer, int first, const at::Tensor& hidden) {
      on_hidden(question, layer, first, hidden);
    };
  };
  const auto read_common = [&](const EvalRun::HiddenHook& hook) {
    run.emplace(start(model_, setting, tokens(), longest + answer_tokens_, recording_, structure,
                      twice_ ? &*twice_ : nullptr));
    run->read(std::span(tasks_[0].tokens.ids).first(common), true, progress, hook);
    if (model_.probe && !setting.budget) read_again(*run, *model_.probe, progress);
  };
  read_common(hook_of(0));  // whose last token may be among these
  std::optional<EvalRun::Mark> mark;
  if (tasks_.size() > 1) mark = run->mark(!context_only_);
  std::vector<Answer> answers;
  for (std::size_t question = 0; question < tasks_.size(); ++question) {
    const std::vector<std::int32_t>& ids = tasks_[question].tokens.ids;
    const int length = tokens(question);
    whole = tasks_[question].tokens;
    if (mark) {
      run->return_to(*mark);
    } else if (question > 0) {
      read_common({});  // anew
    }
    structure.restart(whole);
    if (ids.size() > common)
      run->read(std::span(ids).subspan(common), !context_only_, progress, hook_of(question));
    for (int i = 0; i < answer_tokens_; ++i) {
      const std::int32_t choice = run->choice();
      if (ends_text(choice, *model_.config, model_.tokenizer)) break;
      whole.add(choice, "answer");
      structure.extend(whole);
      if (i + 1 < answer_tokens_) run->read(std::span(whole.ids).last(1), !context_only_, progress);
    }
    const std::string before = model_.tokenizer->decode(ids);
    const std::string after = model_.tokenizer->decode(whole.ids);
    const Loops loops = find_loops(whole.ids, length);
    answers.push_back({after.substr(std::min(before.size(), after.size())),
                       loops.spans.empty()
                           ? std::numeric_limits<double>::quiet_NaN()
                           : static_cast<double>(loops.spans.front().first - length)});
  }
  return answers;
}

void NeedleRuns::know_probe(ProbeKind kind, const Progress& progress) {
  if (probe_ && probe_->info()->kind == probe_name(kind)) return;
  EvalRun::Options options;
  options.most_tokens = tokens();
  options.block = std::min(model_.block, tokens());
  EvalRun run(*model_.transformer, *model_.info, options);
  run.read(
      std::span(tasks_[0].tokens.ids).first(static_cast<std::size_t>(tasks_[0].question_begin)),
      false, progress);
  read_again(run, kind, progress);
}

void NeedleRuns::read_again(EvalRun& run, ProbeKind kind, const Progress& progress) {
  const std::span<const std::int32_t> ids = tasks_[0].tokens.ids;
  if (model_.block < tasks_[0].question_begin) {
    throw UsageError(
        fmt::format("a policy needs the context read a second time before it evicts: run the {} "
                    "tokens as one block, with --block {} or more",
                    tasks_[0].question_begin, tokens()));
  }
  ProbeInfo probe = make_probe(kind, ids.first(static_cast<std::size_t>(tasks_[0].question_begin)),
                               model_.tokenizer);
  check_vocabulary(probe.ids, *model_.config, model_.folder);
  twice_.reset();
  probe_.emplace(*model_.transformer, *model_.info, std::move(probe), Storage::float32);
  run.read_again(*probe_, progress);
  twice_.emplace(*probe_, nullptr);
}

PerplexityRuns::PerplexityRuns(const RunningModel& model, TokenSequence text, int most_entries,
                               const Progress& progress,
                               const std::function<void(const std::string&)>& note)
    : model_(model),
      text_(std::move(text)),
      structure_(text_, *model.tokenizer),
      recording_(recording_for(model, tokens(), most_entries)) {
  check_vocabulary(text_.ids, *model.config, model.folder);
  full_.emplace(
      start(model_, EvalSetting::full_cache(), tokens(), tokens(), recording_, structure_),
      text_.ids, model_.most_reference, progress, note);
}

EvaluationRun PerplexityRuns::run(const EvalSetting& setting, const Progress& progress) {
  EvaluationRun run = setting.named_run();
  run.entries = setting.entries(tokens());
  run.tokens = tokens();
  if (setting.budget) {
    full_->compare(start(model_, setting, tokens(), tokens(), recording_, structure_), progress,
                   run);
  } else {
    run.loss = full_->loss();
    run.loss_difference = 0.0;
  }
  return run;
}

}  // namespace kvloupe
