#include "capture/eval/evaluate.h"

#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <memory>
#include <utility>

#include "analysis/error.h"
#include "analysis/policy/policy_catalog.h"
#include "capture/eval/eval_run.h"
#include "capture/eval/haystack.h"
#include "capture/eval/needle_template.h"
#include "capture/model/load_transformer.h"
#include "capture/run/capture_input.h"
#include "capture/run/compute.h"
#include "capture/run/model_description.h"

namespace kvloupe {

namespace {

using Json = EvalResults::Json;
using Clock = std::chrono::steady_clock;

constexpr std::int64_t kMostReference = std::int64_t{1} << 30;  // bytes of the full run's rows

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// A policy at a budget as written; the full cache has none.
struct Setting {
  PolicySpec policy;
  std::optional<Budget> budget;

  Json key() const {
    return {{"policy", policy.text()}, {"budget", budget ? budget->text() : std::string("full")}};
  }
};

/// The full cache first, then policies × budgets.
std::vector<Setting> settings_of(const EvalRequest& request) {
  std::vector<Setting> settings{{parse_policy("full"), {}}};
  for (const PolicySpec& policy : request.policies) {
    if (policy.score().name == "full") continue;
    check_closed_loop(policy);
    check_combination(policy);
    for (const Budget& budget : request.budgets) settings.push_back({policy, budget});
  }
  return settings;
}

NeedleTemplate template_of(const EvalRequest& request) {
  const std::filesystem::path beside = request.model / "needle.json";
  NeedleTemplate result = request.needle_template ? read_needle_template(*request.needle_template)
                          : std::filesystem::exists(beside) ? read_needle_template(beside)
                                                            : general_needle_template();
  if (request.filler) result.filler = read_filler(*request.filler);
  return result;
}

/// Whether a text's first number is the one asked for.
bool answers(const std::string& text, const std::string& number) {
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  const auto first = std::find_if(text.begin(), text.end(), is_digit);
  const auto end = std::find_if_not(first, text.end(), is_digit);
  return std::string(first, end) == number;
}

/// Log-probabilities of the next tokens, float32 [m,vocab].
at::Tensor log_probabilities(const Transformer& model, const at::Tensor& hidden) {
  return at::log_softmax(model.logits(hidden)[0].to(at::kFloat), -1);
}

class Evaluation {
 public:
  Evaluation(const EvalRequest& request, Progress& progress, const EvalReport& report)
      : request_(request),
        progress_(progress),
        report_(report),
        config_(read_model_config(request.model)),
        info_(describe_model(config_, request.model)),
        settings_(settings_of(request)),
        tokenizer_(open_tokenizer(request.model)),
        template_(template_of(request)),
        haystack_(template_, *tokenizer_, request.seed) {
    const at::Device device = parse_device(request.device);
    type_ = parse_compute_type(request.dtype, device);
    use_threads(request.threads);
    // A results file of other settings is found before the model is loaded.
    results_ = std::make_unique<EvalResults>(request.output, described());
    model_ = std::make_unique<Transformer>(load_transformer(request.model, config_, type_, device));
  }

  EvalResults run() {
    const auto cells = request_.task == EvalTask::needle
                           ? request_.lengths.size() * request_.depths.size()
                           : request_.lengths.size();
    total_ = static_cast<long>(cells * settings_.size()) * request_.samples;
    for (const int length : request_.lengths) {
      for (int sample = 0; sample < request_.samples; ++sample) {
        if (request_.task == EvalTask::perplexity) {
          perplexity(length, sample);
          continue;
        }
        for (const double depth : request_.depths) needle({length, depth, sample});
      }
    }
    results_->save();
    return std::move(*results_);
  }

 private:
  /// What must be equal for results to go on.
  Json described() const {
    Json settings{{"task", request_.task == EvalTask::needle ? "needle" : "perplexity"},
                  {"model", info_.name},
                  {"dtype", compute_type_name(type_)},
                  {"block", request_.block},
                  {"positions", request_.positions == Positions::compact ? "compact" : "original"},
                  {"seed", request_.seed},
                  {"filler_sentences", template_.filler.size()}};
    if (request_.task == EvalTask::needle) {
      settings["needles"] = request_.needles;
      settings["compression"] =
          request_.compression == Compression::regular ? "regular" : "context-only";
      settings["needle"] = template_.needle;
      settings["question"] = template_.question;
    }
    return settings;
  }

  /// Settings whose run of this case is not in the results.
  std::vector<Setting> missing(const Json& of_case) {
    std::vector<Setting> wanted;
    for (const Setting& setting : settings_) {
      Json key = setting.key();
      key.update(of_case);
      if (results_->has(key)) {
        ++done_;
      } else {
        wanted.push_back(setting);
      }
    }
    return wanted;
  }

  void record(Json run) {
    ++done_;
    results_->add(run);
    if (report_.run) report_.run(done_, total_, run);
  }

  EvalRun start(const Setting& setting, int prompt_length, int most_tokens) const {
    EvalRun::Options options;
    options.most_tokens = most_tokens;
    options.block = request_.block;
    if (setting.budget) {
      options.loop = ClosedLoop{setting.policy, setting.budget->resolve(prompt_length),
                                request_.positions};
    }
    return {*model_, info_, options};
  }

  static int entries_of(const Setting& setting, int prompt_length) {
    return setting.budget ? setting.budget->resolve(prompt_length) : prompt_length;
  }

  void needle(const NeedleCase& wanted) {
    const Json of_case{
        {"length", wanted.length}, {"depth", wanted.depth}, {"sample", wanted.sample}};
    const std::vector<Setting> settings = missing(of_case);
    if (settings.empty()) return;
    const NeedleTask task = haystack_.needle(wanted, request_.needles);
    for (const Setting& setting : settings) {
      const auto begin = Clock::now();
      const std::string text = answer(task, setting);
      const int tokens = static_cast<int>(task.tokens.ids.size());
      Json run = setting.key();
      run["entries"] = entries_of(setting, tokens);
      run.update(of_case);
      run["tokens"] = tokens;
      run["expected"] = task.answer;
      run["answer"] = text;
      run["correct"] = answers(text, task.answer);
      run["seconds"] = seconds_since(begin);
      record(std::move(run));
    }
    results_->save();
  }

  /// What the model says after the question.
  std::string answer(const NeedleTask& task, const Setting& setting) {
    const std::vector<std::int32_t>& ids = task.tokens.ids;
    const int length = static_cast<int>(ids.size());
    EvalRun run = start(setting, length, length + template_.answer_tokens);
    const bool regular = request_.compression == Compression::regular;
    const auto context = static_cast<std::size_t>(regular ? length : task.question_begin);
    run.read(std::span(ids).first(context), true, progress_);
    if (!regular) run.read(std::span(ids).subspan(context), false, progress_);
    std::vector<std::int32_t> whole = ids;
    for (int i = 0; i < template_.answer_tokens; ++i) {
      const std::int32_t choice = run.choice();
      if (ends_text(choice, config_, tokenizer_.get())) break;
      whole.push_back(choice);
      if (i + 1 < template_.answer_tokens) {
        run.read(std::span(whole).last(1), regular, progress_);
      }
    }
    const std::string before = tokenizer_->decode(ids);
    const std::string after = tokenizer_->decode(whole);
    return after.substr(std::min(before.size(), after.size()));
  }

  void perplexity(int length, int sample) {
    const Json of_case{{"length", length}, {"sample", sample}};
    const std::vector<Setting> settings = missing(of_case);
    if (settings.empty()) return;
    const std::vector<std::int32_t> ids = haystack_.text(length, sample).ids;
    // What every run is compared with: the full cache's own rows.
    at::Tensor reference;
    const bool fits =
        static_cast<std::int64_t>(ids.size()) * config_.vocab_size * 4 <= kMostReference;
    if (fits) {
      reference = at::empty({std::ssize(ids), config_.vocab_size}, at::kFloat);
    } else if (report_.note) {
      report_.note("the full cache's distributions over " + std::to_string(ids.size()) +
                   " tokens take more than 1 GiB: no KL, no share of equal tokens");
    }
    double full_loss = 0.0;
    const Setting full = settings_.front();
    measure(full, ids, fits ? &reference : nullptr, {}, full_loss);
    for (const Setting& setting : settings) {
      const auto begin = Clock::now();
      double loss = full_loss;
      Json run = setting.key();
      run["entries"] = entries_of(setting, static_cast<int>(ids.size()));
      run.update(of_case);
      run["tokens"] = ids.size();
      Json drift =
          setting.budget ? measure(setting, ids, nullptr, reference, loss) : Json::object();
      run["loss"] = loss;
      run["loss_difference"] = loss - full_loss;
      run.update(drift);
      run["seconds"] = seconds_since(begin);
      record(std::move(run));
    }
    results_->save();
  }

  /// Reads the text and takes its mean loss, −log p of tokens 1 onwards. `keep` is given the rows
  /// of log-probabilities; against `reference`, the result holds `kl`, the mean of
  /// Σ p_full (log p_full − log p), and `same_top1`, the share of equal most probable tokens.
  Json measure(const Setting& setting, const std::vector<std::int32_t>& ids, at::Tensor* keep,
               const at::Tensor& reference, double& loss) {
    const int length = static_cast<int>(ids.size());
    EvalRun run = start(setting, length, length);
    double sum = 0.0, kl = 0.0, same = 0.0;
    run.read(ids, true, progress_, [&](const at::Tensor& hidden, int first) {
      const at::Tensor rows = log_probabilities(*model_, hidden).to(at::kCPU);
      const std::int64_t m = rows.size(0);
      for (std::int64_t i = 0; i < m && first + i + 1 < length; ++i) {
        sum -= rows[i][ids[static_cast<std::size_t>(first + i + 1)]].item<double>();
      }
      if (keep != nullptr) keep->slice(0, first, first + m).copy_(rows);
      if (!reference.defined()) return;
      const at::Tensor full = reference.slice(0, first, first + m);
      kl += (full.exp() * (full - rows)).sum().item<double>();
      same += full.argmax(-1).eq(rows.argmax(-1)).sum().item<double>();
    });
    loss = length > 1 ? sum / (length - 1) : 0.0;
    if (!reference.defined()) return Json::object();
    return {{"kl", kl / length}, {"same_top1", same / length}};
  }

  const EvalRequest& request_;
  Progress& progress_;
  const EvalReport& report_;
  ModelConfig config_;
  ModelInfo info_;
  std::vector<Setting> settings_;
  std::unique_ptr<Tokenizer> tokenizer_;
  NeedleTemplate template_;
  Haystack haystack_;
  at::ScalarType type_ = at::kFloat;
  std::unique_ptr<EvalResults> results_;
  std::unique_ptr<Transformer> model_;
  long done_ = 0, total_ = 0;
};

}  // namespace

EvalResults evaluate(const EvalRequest& request, Progress& progress, const EvalReport& report) {
  const c10::InferenceMode no_gradients;
  return Evaluation(request, progress, report).run();
}

}  // namespace kvloupe
