#include "capture/eval/evaluate.h"

#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <memory>
#include <utility>

#include "analysis/error.h"
#include "analysis/policy/policy_catalog.h"
#include "analysis/policy/policy_files.h"
#include "analysis/trace/model_fingerprint.h"
#include "capture/eval/eval_run.h"
#include "capture/eval/first_number.h"
#include "capture/eval/haystack.h"
#include "capture/eval/hidden_drift.h"
#include "capture/eval/needle_template.h"
#include "capture/eval/perplexity.h"
#include "capture/model/load_transformer.h"
#include "capture/run/capture_input.h"
#include "capture/run/compute.h"
#include "capture/run/model_description.h"

namespace kvloupe {

namespace {

using Json = EvalResults::Json;
using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// A policy at a budget as written; the full cache has none.
struct Setting {
  PolicySpec policy;
  std::optional<Budget> budget;

  Json key() const {
    Json key{{"policy", policy.text()}, {"budget", budget ? budget->text() : std::string("full")}};
    if (const std::string files = policy_files(policy); !files.empty()) key["policy_files"] = files;
    return key;
  }
};

/// The full cache first, then policies × budgets.
std::vector<Setting> settings_of(const EvalRequest& request) {
  std::vector<Setting> settings{{parse_policy("full"), {}}};
  for (const PolicySpec& policy : request.policies) {
    if (keeps_everything(policy)) continue;
    check_closed_loop(policy);
    check_combination(policy);
    for (const Budget& budget : request.budgets) settings.push_back({policy, budget});
  }
  return settings;
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
        template_(needle_template_of(request.model, request.needle_template, request.filler)),
        haystack_(template_, *tokenizer_, request.seed) {
    const at::Device device = parse_device(request.device);
    type_ = parse_compute_type(request.dtype, device);
    use_threads(request.threads);
    // A results file of other settings is found before the model is loaded.
    results_ = std::make_unique<EvalResults>(request.output, described());
    refuse_changed_policies();
    results_->set_fingerprint(model_fingerprint(request.model, progress));
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

  /// Runs of a policy whose files or plugin have changed since do not go together with new ones.
  void refuse_changed_policies() const {
    for (const Json& run : results_->runs()) {
      for (const Setting& setting : settings_) {
        const Json key = setting.key();
        if (run["policy"] != key["policy"]) continue;
        if (run.value("policy_files", "") == key.value("policy_files", "")) continue;
        throw FileError(request_.output, "holds runs of " + setting.policy.text() +
                                             " with other files or another build of its plugin; "
                                             "name another file for the results");
      }
    }
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

  /// What the runs of one prompt can have in common: up to the largest budget nothing is cut.
  Recording recording_for(int prompt_length) const {
    int most = 0;
    for (const Setting& setting : settings_) {
      if (setting.budget) most = std::max(most, setting.budget->resolve(prompt_length));
    }
    return {std::min(most, prompt_length - 1), request_.most_shared};
  }

  /// The full cache's run fills the recording, the others begin with it.
  EvalRun start(const Setting& setting, int prompt_length, int most_tokens,
                Recording& recording) const {
    EvalRun::Options options;
    options.most_tokens = most_tokens;
    options.block = request_.block;
    if (setting.budget) {
      options.loop =
          ClosedLoop{setting.policy, setting.budget->resolve(prompt_length), request_.positions};
      options.shared = &recording;
    } else {
      options.record = &recording;
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
    const int tokens = static_cast<int>(task.tokens.ids.size());
    check_vocabulary(task.tokens.ids, config_, request_.model);
    auto begin = Clock::now();
    // Also where its own run is there already: what every other one is compared with, in the state
    // that the answer's first token comes from.
    HiddenStates full(*model_, tokens - 1, 1);
    Recording recording = recording_for(tokens);
    const std::string full_answer = answer(
        task, settings_.front(), recording,
        [&](int layer, int first, const at::Tensor& hidden) { full.keep(layer, first, hidden); });
    for (const Setting& setting : settings) {
      if (setting.budget) begin = Clock::now();
      HiddenDrift drift(*model_, full);
      const std::string text = !setting.budget
                                   ? full_answer
                                   : answer(task, setting, recording,
                                            [&](int layer, int first, const at::Tensor& hidden) {
                                              drift.add(layer, first, hidden);
                                            });
      Json run = setting.key();
      run["entries"] = entries_of(setting, tokens);
      run.update(of_case);
      run["tokens"] = tokens;
      run["expected"] = task.answer;
      run["answer"] = text;
      run["correct"] = first_number(text) == task.answer;
      if (setting.budget) run.update(drift.means());
      run["seconds"] = seconds_since(begin);
      record(std::move(run));
    }
    results_->save();
  }

  /// What the model says after the question; `on_hidden` is for the prompt.
  std::string answer(const NeedleTask& task, const Setting& setting, Recording& recording,
                     const EvalRun::HiddenHook& on_hidden) {
    const std::vector<std::int32_t>& ids = task.tokens.ids;
    const int length = static_cast<int>(ids.size());
    EvalRun run = start(setting, length, length + template_.answer_tokens, recording);
    const bool regular = request_.compression == Compression::regular;
    const auto context = static_cast<std::size_t>(regular ? length : task.question_begin);
    run.read(std::span(ids).first(context), true, progress_, on_hidden);
    if (!regular) run.read(std::span(ids).subspan(context), false, progress_, on_hidden);
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
    const int tokens = static_cast<int>(ids.size());
    check_vocabulary(ids, config_, request_.model);
    auto begin = Clock::now();
    // Also where its own run is there already: what every other one is compared with.
    Recording recording = recording_for(tokens);
    const Perplexity full(start(settings_.front(), tokens, tokens, recording), ids,
                          request_.most_reference, progress_, report_.note);
    for (const Setting& setting : settings) {
      if (setting.budget) begin = Clock::now();
      Json run = setting.key();
      run["entries"] = entries_of(setting, tokens);
      run.update(of_case);
      run["tokens"] = tokens;
      if (setting.budget) {
        run.update(full.compare(start(setting, tokens, tokens, recording), progress_));
      } else {
        run["loss"] = full.loss();
        run["loss_difference"] = 0.0;
      }
      run["seconds"] = seconds_since(begin);
      record(std::move(run));
    }
    results_->save();
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
