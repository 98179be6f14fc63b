#include "capture/eval/evaluate.h"

#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <memory>
#include <utility>

#include "analysis/error.h"
#include "analysis/policy/policy_catalog.h"
#include "analysis/trace/model_fingerprint.h"
#include "capture/eval/haystack.h"
#include "capture/eval/needle_template.h"
#include "capture/eval/prompt_runs.h"
#include "capture/eval/stored_prompt.h"
#include "capture/model/load_transformer.h"
#include "capture/run/compute.h"
#include "capture/run/model_description.h"
#include "capture/tokenizer/kinds/tokenizer_catalog.h"

namespace kvloupe {

namespace {

using Json = EvalResults::Json;
using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// The full cache first, then policies × budgets.
std::vector<EvalSetting> settings_of(const EvalRequest& request) {
  std::vector<EvalSetting> settings{EvalSetting::full_cache()};
  for (const PolicySpec& policy : request.policies) {
    if (keeps_everything(policy)) continue;
    check_closed_loop(policy, request.task == EvalTask::needle);
    check_combination(policy);
    std::optional<ProbeKind> probe;
    if (has_trait(policy, &PolicyTraits::reads_probe)) {
      probe = request.probe.value_or(ProbeKind::repeat);
    }
    for (const Budget& budget : request.budgets) settings.push_back({policy, budget, probe});
  }
  return settings;
}

class EvalWork {
 public:
  EvalWork(const EvalRequest& request, Progress& progress, const EvalReport& report)
      : request_(request),
        progress_(progress),
        report_(report),
        config_(read_model_config(request.model.path)),
        info_(describe_model(config_, request.model.path)),
        settings_(settings_of(request)),
        tokenizer_(open_tokenizer(request.model.tokenizer_place())),
        template_(needle_template_of(request.model.path, request.needle_template, request.filler)),
        haystack_(template_, *tokenizer_, request.seed) {
    const at::Device device = parse_device(request.device);
    type_ = parse_compute_type(request.dtype, device);
    use_threads(request.threads, device, type_);
    // A results file of other settings is found before the model is loaded.
    results_ = std::make_unique<EvalResults>(request.output, described());
    refuse_changed_policies();
    results_->set_fingerprint(model_fingerprint(request.model.path, progress));
    model_ = std::make_unique<Transformer>(
        load_transformer(request.model.path, config_, type_, device, request.model.weights));
    running_ = {request.model.path,
                &config_,
                &info_,
                tokenizer_.get(),
                model_.get(),
                request.block,
                request.positions,
                request.most_shared,
                request.most_reference,
                probe()};
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
  /// How the context is read a second time; not at all where no policy needs that.
  std::optional<ProbeKind> probe() const {
    for (const EvalSetting& setting : settings_) {
      if (setting.probe) return setting.probe;
    }
    return std::nullopt;
  }

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
      for (const EvalSetting& setting : settings_) {
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
  std::vector<EvalSetting> missing(const Json& of_case) {
    std::vector<EvalSetting> wanted;
    for (const EvalSetting& setting : settings_) {
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

  /// Keeps a prompt in the results: what it was made from, its tokens and their segments. Its
  /// number, as a member of its runs; empty where the results have become too large for it.
  Json stored(const Json& of_case, const TokenSequence& tokens) {
    Json prompt = of_case;
    prompt["filler"] = request_.filler ? request_.filler->filename().string() : "template";
    if (request_.task == EvalTask::needle) prompt["answer_tokens"] = template_.answer_tokens;
    prompt.update(stored_prompt(tokens));
    const int number = results_->prompt(prompt);
    if (number >= 0) return {{"prompt", number}};
    if (!std::exchange(told_, true) && report_.note) {
      report_.note("the results hold 64 MiB of prompts: later runs are kept without theirs");
    }
    return Json::object();
  }

  void record(Json run) {
    ++done_;
    results_->add(run);
    if (report_.run) report_.run(done_, total_, run);
  }

  /// The largest budget of the settings: up to it the runs of a prompt are the same.
  int most_entries(int prompt_length) const {
    int most = 0;
    for (const EvalSetting& setting : settings_) {
      if (setting.budget) most = std::max(most, setting.budget->resolve(prompt_length));
    }
    return most;
  }

  /// Makes the runs of one prompt, and saves them. The first one's time counts the full cache's
  /// run, which is made also where it is in the results already: the others are compared with it.
  template <typename Runs>
  void make_runs(Runs& runs, const std::vector<EvalSetting>& settings, const Json& of_case,
                 const Json& prompt, Clock::time_point begin) {
    for (const EvalSetting& setting : settings) {
      if (setting.budget) begin = Clock::now();
      Json run = setting.key();
      run["entries"] = setting.entries(runs.tokens());
      run.update(of_case);
      run.update(runs.run(setting, progress_));
      run.update(prompt);
      run["seconds"] = seconds_since(begin);
      record(std::move(run));
    }
    results_->save();
  }

  void needle(const NeedleCase& wanted) {
    const Json of_case{
        {"length", wanted.length}, {"depth", wanted.depth}, {"sample", wanted.sample}};
    const std::vector<EvalSetting> settings = missing(of_case);
    if (settings.empty()) return;
    NeedleTask task = haystack_.needle(wanted, request_.needles);
    const int most = most_entries(static_cast<int>(task.tokens.ids.size()));
    const Json prompt = stored(of_case, task.tokens);
    const auto begin = Clock::now();
    NeedleRuns runs(running_, std::move(task), template_.answer_tokens,
                    request_.compression == Compression::context_only, most, progress_);
    make_runs(runs, settings, of_case, prompt, begin);
  }

  void perplexity(int length, int sample) {
    const Json of_case{{"length", length}, {"sample", sample}};
    const std::vector<EvalSetting> settings = missing(of_case);
    if (settings.empty()) return;
    const TokenSequence text = haystack_.text(length, sample);
    const Json prompt = stored(of_case, text);
    std::vector<std::int32_t> ids = text.ids;
    const int most = most_entries(static_cast<int>(ids.size()));
    const auto begin = Clock::now();
    PerplexityRuns runs(running_, std::move(ids), most, progress_, report_.note);
    make_runs(runs, settings, of_case, prompt, begin);
  }

  const EvalRequest& request_;
  Progress& progress_;
  const EvalReport& report_;
  ModelConfig config_;
  ModelInfo info_;
  std::vector<EvalSetting> settings_;
  std::unique_ptr<Tokenizer> tokenizer_;
  NeedleTemplate template_;
  Haystack haystack_;
  at::ScalarType type_ = at::kFloat;
  std::unique_ptr<EvalResults> results_;
  std::unique_ptr<Transformer> model_;
  RunningModel running_;
  long done_ = 0, total_ = 0;
  bool told_ = false;  // that prompts are not kept any more
};

}  // namespace

EvalResults evaluate(const EvalRequest& request, Progress& progress, const EvalReport& report) {
  const c10::InferenceMode no_gradients;
  return EvalWork(request, progress, report).run();
}

}  // namespace kvloupe
