#include "capture/eval/run_worker.h"

#include <c10/core/InferenceMode.h>
#include <fmt/format.h>
#include <stdlib.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstring>
#include <system_error>
#include <utility>

#include "analysis/base/core/error.h"
#include "analysis/base/text/unknown.h"
#include "analysis/base/text/utf8.h"
#include "analysis/policy/kit/policy_catalog.h"
#include "analysis/replay/compression.h"
#include "analysis/replay/drift.h"
#include "analysis/study/answer_score.h"
#include "analysis/study/needle_template.h"
#include "analysis/trace/model_files.h"
#include "analysis/trace/trace_probe.h"
#include "capture/eval/stored_prompt.h"
#include "capture/model/load_transformer.h"
#include "capture/model/runs_together.h"
#include "capture/run/capture.h"
#include "capture/run/capture_input.h"
#include "capture/run/capture_set.h"
#include "capture/run/compute.h"
#include "capture/run/model_description.h"
#include "capture/tokenizer/kinds/tokenizer_catalog.h"

namespace kvloupe {

namespace {
namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

class Silent final : public CaptureObserver {
 public:
  void on_tokens(int, int, int) override {}
  void on_note(const std::string&) override {}
};

/// Collects the values of an item by the names of their measures.
class Values {
 public:
  Values(const StudyTask& task, StudyOutcome& outcome) : task_(task), outcome_(outcome) {}
  void add(const char* measure, double value) {
    outcome_.values.push_back({place(measure), -1, -1, -1, value});
  }
  /// The mean over parts of the model, and the parts where the study keeps them.
  void add(const char* measure, std::vector<StudyValue> parts) {
    double sum = 0.0;
    long count = 0;
    for (const StudyValue& part : parts) {
      if (!std::isfinite(part.value)) continue;
      sum += part.value;
      ++count;
    }
    add(measure, count > 0 ? sum / static_cast<double>(count) : kUnknown);
    if (task_.reduce != Reduce::steps && task_.reduce != Reduce::none) return;
    for (StudyValue& part : parts) {
      part.measure = place(measure);
      outcome_.values.push_back(part);
    }
  }
  /// After all: in the order that results have.
  void sort() {
    std::stable_sort(
        outcome_.values.begin(), outcome_.values.end(),
        [](const StudyValue& a, const StudyValue& b) {
          return std::array{a.measure, a.layer, a.head} < std::array{b.measure, b.layer, b.head};
        });
  }

 private:
  int place(const std::string& measure) const {
    const auto found = std::find(task_.measures.begin(), task_.measures.end(), measure);
    if (found == task_.measures.end()) throw std::logic_error("a task without " + measure);
    return static_cast<int>(found - task_.measures.begin());
  }
  const StudyTask& task_;
  StudyOutcome& outcome_;
};

std::vector<StudyValue> by_layer(const std::vector<double>& values) {
  std::vector<StudyValue> layers;
  for (const double value : values) {
    layers.push_back({0, static_cast<int>(layers.size()), -1, -1, value});
  }
  return layers;
}

/// Tasks with the same one share a prompt and the full cache's run of it.
std::string key_of(const StudyTask& task) {
  const std::string& name = task.source.name;
  return fmt::format("{}\n{}\n{}\n{}", task.source.task == kAnswerTask ? context_of(name) : name,
                     task.identity, task.block, task.compression);
}

/// Of these, with the same one the policy does the same with the same context.
std::string setting_of(const StudyTask& task) {
  return fmt::format("{}\n{}\n{}", key_of(task), task.policy, task.budget);
}

fs::path make_folder() {
  std::error_code error;
  const fs::path parent = fs::temp_directory_path(error);
  std::string name = ((error ? fs::path("/tmp") : parent) / "kvloupe-study-XXXXXX").string();
  if (mkdtemp(name.data()) == nullptr) {
    throw FileError(name, std::string("cannot be made: ") + std::strerror(errno) +
                              "; set TMPDIR to a folder with space");
  }
  return name;
}
}  // namespace

/// All that is loaded once.
struct RunWorker::OpenModel {
  OpenModel(const StudyTask& task, const std::string& device_name, const ModelChoice& choice,
            const RunSettings& settings)
      : folder(task.model),
        dtype(task.dtype),
        device(parse_device(device_name)),
        config(read_model_config(folder)),
        info(describe_model(config, folder)),
        tokenizer(open_tokenizer(choice.tokenizer.empty() ? folder : choice.tokenizer, task.chat,
                                 task.system)),
        needles(needle_template_of(folder, settings.needle_template, settings.filler)),
        transformer(load_transformer(folder, config, parse_compute_type(task.dtype, device), device,
                                     choice.weights)) {}

  fs::path folder;
  std::string dtype;
  at::Device device;
  ModelConfig config;
  ModelInfo info;
  std::unique_ptr<Tokenizer> tokenizer;
  NeedleTemplate needles;
  Transformer transformer;
};

RunWorker::RunWorker(std::string device, int threads, ModelChoice choice,
                     std::function<void(const std::string&)> note, RunSettings settings)
    : device_(std::move(device)),
      choice_(std::move(choice)),
      threads_(threads),
      note_(std::move(note)),
      settings_(std::move(settings)),
      progress_(settings_.progress != nullptr ? *settings_.progress : own_progress_) {}

RunWorker::~RunWorker() {
  full_trace_.reset();
  std::error_code ignored;
  if (!folder_.empty()) fs::remove_all(folder_, ignored);
}

void RunWorker::open_model(const StudyTask& task) {
  if (model_ && model_->folder == task.model && model_->dtype == task.dtype) return;
  prompt_.clear();
  needle_.reset();
  perplexity_.reset();
  haystack_.reset();
  model_.reset();
  const std::string fingerprint = model_fingerprint(task.model, progress_);
  if (!task.identity.starts_with(fingerprint) || fingerprint.empty())
    throw FileError(task.model, "has changed since the study began; start the study again");
  const at::Device device = parse_device(device_);
  use_threads(threads_, device, parse_compute_type(task.dtype, device));
  model_ = std::make_unique<OpenModel>(task, device_, choice_, settings_);
}

void RunWorker::note(const std::string& text) {
  if (note_ && !text.empty() && noted_.insert(text).second) note_(text);
}

Prompt RunWorker::read(const StudyTask& task, const PromptPlace& place) {
  if (!task.identity.ends_with(" " + identities_.of(place)))
    throw FileError(place.path.string(),
                    "has changed since the study began; start the study again");
  Prompt prompt = read_set_prompt(place);
  for (const std::string& text : prompt.notes) note(text);
  return prompt;
}

TokenSequence RunWorker::prompt_of(const StudyTask& task) {
  const StudySource& source = task.source;
  if (source.length > 0) return haystack_->text(source.length, source.sample);
  return encode_prompt(read(task, source.prompt), *model_->tokenizer);
}

namespace {
/// Where the question of a prompt begins, in bytes.
std::size_t question_byte(const Prompt& prompt) {
  const auto found = std::find_if(prompt.segments.begin(), prompt.segments.end(),
                                  [](const Segment& one) { return one.name == "question"; });
  return found == prompt.segments.end() ? prompt.text.size() : found->begin;
}

/// A later question after the first `common` tokens of the first one's prompt: its context, or all
/// of it.
TokenSequence later_question(const Prompt& first, const Prompt& prompt, std::size_t common,
                             bool context_only, const Tokenizer& tokenizer) {
  const std::size_t context = question_byte(prompt);
  const std::string question = (context_only ? "" : "\n\n") + prompt.text.substr(context);
  Prompt before{first.text, {}, {}};  // with the evidence of this question
  for (const Segment& segment : prompt.segments) {
    if (segment.begin < context) before.segments.push_back(segment);
  }
  before.segments.push_back({context, "context"});
  Prompt whole = before;
  if (context_only) whole.text.resize(context);
  whole.segments.push_back({whole.text.size(), "question"});
  whole.text += question;
  TokenSequence begun = encode_prompt(before, tokenizer);
  begun.ids.resize(common);
  begun.segment.resize(common);
  const TokenSequence joint = encode_prompt(whole, tokenizer);
  // Letters of both may be one token; then the question is tokens by itself.
  if (joint.ids.size() > common &&
      std::equal(begun.ids.begin(), begun.ids.end(), joint.ids.begin()))
    return joint;
  for (const EncodedToken& token : tokenizer.encode(question))
    begun.add(token.id, tokenizer.is_special(token.id) ? "special" : "question");
  return begun;
}
}  // namespace

std::vector<NeedleTask> RunWorker::questions_of(const StudyTask& task, bool context_only) {
  PromptPlace place = task.source.prompt;
  const bool many = place.question >= 0;
  std::vector<NeedleTask> tasks;
  Prompt first;
  for (int question = 0, count = 1; question < count; ++question) {
    if (many) place.question = question;
    const std::string where = fmt::format("line {}{}", place.line + 1,
                                          many ? fmt::format(", question {},", question + 1) : "");
    const Prompt prompt = read(task, place);
    const PromptParts parts = place.line < 0 ? PromptParts() : read_prompt_line(place);
    if (parts.answers.empty() && parts.rules.empty()) {
      throw FileError(place.path.string(),
                      place.line < 0
                          ? "has no answers; the task answer needs JSON lines with answers"
                          : where + " has no answers; add \"answers\"");
    }
    count = std::max(parts.questions, 1);
    NeedleTask& asked = tasks.emplace_back();
    if (question == 0) {
      first = prompt;
      asked.tokens = encode_prompt(prompt, *model_->tokenizer);
      const std::vector<std::string>& names = asked.tokens.names;
      const auto name = std::find(names.begin(), names.end(), "question") - names.begin();
      const std::vector<std::uint8_t>& segments = asked.tokens.segment;
      const auto begin =
          std::find(segments.begin(), segments.end(), static_cast<std::uint8_t>(name));
      asked.question_begin = static_cast<int>(begin - segments.begin());
      if (context_only && begin == segments.end()) {
        throw FileError(place.path.string(),
                        where + " has no question; compression of the context only needs one");
      }
    } else {
      const auto common = context_only ? static_cast<std::size_t>(tasks.front().question_begin)
                                       : tasks.front().tokens.ids.size();
      asked.tokens = later_question(first, prompt, common, context_only, *model_->tokenizer);
      asked.question_begin = static_cast<int>(common);
    }
    store(task, asked.tokens, task.source.answer_tokens, parts.answers, parts.rules);
  }
  return tasks;
}

void RunWorker::open_prompt(const StudyTask& task) {
  const StudySource& source = task.source;
  const std::string wanted = key_of(task);
  if (prompt_ == wanted) return;
  prompt_.clear();
  asked_.clear();
  known_.clear();
  needle_.reset();
  perplexity_.reset();
  full_trace_.reset();
  if (!haystack_ || haystack_seed_ != source.seed)
    haystack_.emplace(model_->needles, *model_->tokenizer, haystack_seed_ = source.seed);
  running_ = {};
  running_.folder = model_->folder;
  running_.config = &model_->config;
  running_.info = &model_->info;
  running_.tokenizer = model_->tokenizer.get();
  running_.transformer = &model_->transformer;
  running_.block = task.block;
  running_.most_shared = settings_.most_shared;
  running_.most_reference = settings_.most_reference;
  running_.probe = settings_.probe;
  running_.positions = task.compact ? Positions::compact : Positions::original;
  const Budget largest = parse_budget(task.largest_budget);
  const bool context_only = task.compression == compression_name(Compression::context_only);
  const bool needle = source.task == kNeedleTask;
  if (needle || source.task == kAnswerTask) {
    std::vector<NeedleTask> questions;
    const int answer_tokens = needle ? model_->needles.answer_tokens : source.answer_tokens;
    if (needle) {
      questions = {haystack_->needle({source.length, source.depth, source.sample}, source.needles)};
      store(task, questions.front().tokens, answer_tokens, {questions.front().answer});
    } else {
      questions = questions_of(task, context_only);
    }
    tokens_ = static_cast<int>(questions.front().tokens.ids.size());
    read_ = context_only ? questions.front().question_begin : tokens_;
    needle_ = std::make_unique<NeedleRuns>(running_, std::move(questions), answer_tokens,
                                           context_only, largest.resolve(tokens_), progress_);
  } else {
    sequence_ = prompt_of(task);
    tokens_ = static_cast<int>(sequence_.ids.size());
    if (tokens_ < 2)
      throw WorkError(source.name + ": has fewer than two tokens; give a longer text");
    read_ = tokens_;
    store(task, sequence_, 0, {});
    if (source.task == kPerplexityTask) {
      perplexity_ =
          std::make_unique<PerplexityRuns>(running_, sequence_, largest.resolve(tokens_), progress_,
                                           [&](const std::string& text) { note(text); });
    } else {
      full_trace_ = std::make_unique<Trace>(captured(task, EvalSetting::full_cache(), "full.h5"));
    }
  }
  prompt_ = wanted;
}

/// Keeps the prompt as results carry it: its tokens, how many the model says after them, and how a
/// policy that needs that reads the context a second time.
void RunWorker::store(const StudyTask& task, const TokenSequence& tokens, int answer_tokens,
                      std::vector<std::string> answers, std::vector<AnswerRule> rules) {
  // A generated prompt may be shorter by a part of a sentence than it was asked for.
  const long length = std::max(std::ssize(tokens.ids), std::ptrdiff_t{task.source.length});
  note(beyond_positions(length + answer_tokens, model_->config));
  nlohmann::ordered_json prompt = stored_prompt(tokens);
  prompt["answer_tokens"] = answer_tokens;
  if (!rules.empty()) prompt["rules"] = rules;
  prompt["probe"] = task.probe;
  prompt["fingerprint"] = task.identity.substr(0, task.identity.find(' '));  // of the model
  asked_.push_back({prompt.dump(), std::move(answers), std::move(rules)});
}

fs::path RunWorker::captured(const StudyTask& task, const EvalSetting& setting, const char* name) {
  if (folder_.empty()) folder_ = make_folder();
  CaptureRequest request;
  request.model = choice_;
  request.model.path = model_->folder;
  request.target = folder_ / name;
  request.tokens = sequence_;
  request.block = task.block;
  request.attention = AttentionStorage::none;
  request.dtype = task.dtype;
  request.device = device_;
  request.threads = threads_;
  request.probe = setting.probe;
  if (setting.budget) {
    request.policy = setting.policy;
    request.budget = *setting.budget;
    request.positions = running_.positions;
    request.compression = compression_words().at(task.compression);
  }
  Silent silent;
  run_capture(request, progress_, silent, &model_->transformer);
  return request.target;
}

void RunWorker::drift(const StudyTask& task, const EvalSetting& setting, StudyOutcome& outcome) {
  if (setting.probe && !TraceProbe(*full_trace_).info()) {
    // The replay beside the run needs one, too.
    EvalSetting full = EvalSetting::full_cache();
    full.probe = setting.probe;
    full_trace_.reset();
    full_trace_ = std::make_unique<Trace>(captured(task, full, "full.h5"));
  }
  const Trace closed(captured(task, setting, "closed.h5"));
  const Drift drift = measure_drift(*full_trace_, closed, progress_);
  outcome.at_once = compresses_at_once(closed, 0, {});
  std::vector<StudyValue> agreement, keys, outputs;
  for (const HeadDrift& head : drift.heads) {
    agreement.push_back(
        {0, head.layer, head.head, -1, Drift::mean_jaccard(head, drift.first_eviction)});
  }
  for (const LayerDrift& layer : drift.layers) {
    keys.push_back({0, layer.layer, -1, -1, layer.key});
    outputs.push_back({0, layer.layer, -1, -1, layer.output});
  }
  Values values(task, outcome);
  values.add(kAgreement, std::move(agreement));
  values.add("drift_key_distance", std::move(keys));
  values.add("drift_output_distance", std::move(outputs));
  values.add("drift_same_top1", drift.same_top1_share());
  values.add("drift_loss_difference", drift.mean_loss_difference());
  values.sort();
}

void RunWorker::compute(const StudyTask& task, StudyOutcome& outcome) {
  const c10::InferenceMode no_gradients;
  open_model(task);
  auto begin = std::chrono::steady_clock::now();
  open_prompt(task);
  const EvalSetting setting = EvalSetting::of(task.policy, task.budget, task.probe);
  outcome.entries = setting.entries(tokens_);
  const int question = asked_.size() > 1 ? task.source.prompt.question : 0;
  const Asked& asked = asked_.at(static_cast<std::size_t>(question));
  const std::vector<std::string>& answers = asked.answers;
  outcome.prompt.stored = asked.stored;
  if (!answers.empty()) {
    outcome.prompt.expected = Json(answers).dump(-1, ' ', false, Json::error_handler_t::replace);
  }
  if (full_trace_) return drift(task, setting, outcome);
  outcome.at_once = setting.budget && task.block >= read_;
  // The prompt was opened with the full cache's run.
  if (setting.budget) begin = std::chrono::steady_clock::now();
  EvaluationRun run = needle_ ? asked_run(task, setting) : perplexity_->run(setting, progress_);
  if (needle_) outcome.entries = static_cast<int>(run.entries);
  run.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  if (needle_) outcome.prompt.answer = escape_invalid_utf8(run.answer);
  Values values(task, outcome);
  const std::string prefix = task.source.task + "_";
  if (task.source.task == kNeedleTask) {
    values.add("needle_found", run.correct);
  } else if (task.source.task == kAnswerTask) {
    const bool has = !answers.empty();  // else the prompt has rules only
    values.add("answer_found", has ? double(has_answer(run.answer, answers)) : kUnknown);
    values.add("answer_all", has ? found_share(run.answer, answers) : kUnknown);
    values.add("answer_f1", has ? answer_f1(run.answer, answers) : kUnknown);
    values.add("answer_rules",
               asked.rules.empty() ? kUnknown : rules_followed(run.answer, asked.rules));
    values.add("answer_loops", std::isnan(run.loop_begin) ? 0.0 : 1.0);
    values.add("answer_loop_begin", run.loop_begin);
  } else {
    values.add("perplexity_loss", run.loss);
    values.add("perplexity_loss_difference", run.loss_difference);
    if (setting.budget) {
      values.add("perplexity_kl", run.kl);
      values.add("perplexity_same_top1", run.same_top1);
    }
  }
  if (setting.budget) values.add((prefix + "hidden_distance").c_str(), by_layer(run.hidden.layers));
  values.sort();
  const std::lock_guard lock(runs_mutex_);
  runs_[task.item] = std::move(run);
}

EvaluationRun RunWorker::asked_run(const StudyTask& task, const EvalSetting& setting) {
  const auto question = static_cast<std::size_t>(std::max(task.source.prompt.question, 0));
  if (asked_.size() == 1) return needle_->run(setting, progress_).front();
  std::unique_lock lock(runs_mutex_);
  const auto known = known_.find(setting_of(task));
  if (known != known_.end()) return known->second.at(question);
  lock.unlock();
  std::vector<EvaluationRun> runs = needle_->run(setting, progress_);
  lock.lock();
  return known_.insert_or_assign(setting_of(task), std::move(runs)).first->second.at(question);
}

int RunWorker::most_like(const StudyTask& task) const {
  const Transformer& model = model_->transformer;
  if (!needle_ || model.is_packed() || !model.options().device().is_cpu() ||
      model.options().dtype() != at::kFloat)
    return 1;
  const EvalSetting setting = EvalSetting::of(task.policy, task.budget, task.probe);
  if (!setting.budget || setting.probe) return 1;  // known already, or changes what others share
  constexpr double kMostBytes = 1 << 30;
  const ModelConfig& config = model_->config;
  const double copies = asked_.size() > 1 ? 3.0 : 1.0;  // to branch from, of cache and policy
  const double bytes = copies * 2.0 * sizeof(float) * static_cast<double>(config.num_layers) *
                       static_cast<double>(config.num_kv_heads * config.head_dim) *
                       (setting.entries(tokens_) + std::min(task.block, tokens_) +
                        std::max(task.source.answer_tokens, 1));
  return static_cast<int>(std::clamp(kMostBytes / bytes, 1.0, double(most_together())));
}

std::vector<StudyOutcome> RunWorker::compute_all(std::span<const StudyTask> tasks) {
  std::vector<StudyOutcome> outcomes(tasks.size());
  runs_.clear();
  std::vector<char> done(tasks.size(), 0);
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    if (done[i] != 0) continue;
    std::vector<std::size_t> members;
    std::set<std::string> settings;  // other questions at one of these are then answered, too
    if (prompt_ == key_of(tasks[i])) {
      int most = most_together();
      for (std::size_t j = i; j < tasks.size() && std::ssize(members) < most; ++j) {
        if (done[j] != 0 || key_of(tasks[j]) != prompt_) continue;
        int like = 1;
        try {
          like = most_like(tasks[j]);
        } catch (const std::exception&) {  // compute() reports it
        }
        if (like == 1 || like <= std::ssize(members) ||
            !settings.insert(setting_of(tasks[j])).second)
          continue;
        most = std::min(most, like);
        members.push_back(j);
      }
    }
    if (members.size() < 2 || members.front() != i) members = {i};
    for (const std::size_t one : members) done[one] = 1;
    if (members.size() == 1) {
      outcomes[i] = compute(tasks[i]);  // opens the prompt
      continue;
    }
    std::vector<std::function<void()>> works;
    for (const std::size_t one : members)
      works.emplace_back([&, one] { outcomes[one] = compute(tasks[one]); });
    const auto begin = std::chrono::steady_clock::now();
    run_together(works);
    const std::chrono::duration<double> all = std::chrono::steady_clock::now() - begin;
    for (const std::size_t one : members) {
      outcomes[one].seconds = all.count() / static_cast<double>(members.size());
      if (const auto run = runs_.find(tasks[one].item); run != runs_.end())
        run->second.seconds = outcomes[one].seconds;
    }
  }
  return outcomes;
}

}  // namespace kvloupe
