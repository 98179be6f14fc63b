#include "capture/eval/evaluate.h"

#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <system_error>
#include <tuple>
#include <utility>

#include "analysis/error.h"
#include "analysis/policy/policy_catalog.h"
#include "analysis/trace/model_fingerprint.h"
#include "analysis/unknown.h"
#include "analysis/user_files.h"
#include "capture/eval/haystack.h"
#include "capture/eval/needle_template.h"
#include "capture/eval/prompt_runs.h"
#include "capture/eval/stored_prompt.h"
#include "capture/model/load_transformer.h"
#include "capture/run/capture_input.h"
#include "capture/run/compute.h"
#include "capture/run/model_description.h"
#include "capture/tokenizer/kinds/tokenizer_catalog.h"

namespace kvloupe {

namespace {

using Task = Evaluation::Task;
using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// The full cache first, then policies × budgets.
std::vector<EvalSetting> settings_of(const EvalRequest& request) {
  std::vector<EvalSetting> settings{EvalSetting::full_cache()};
  for (const PolicySpec& policy : request.policies) {
    if (keeps_everything(policy)) continue;
    check_closed_loop(policy, request.task == Task::needle, true);
    if (request.task != Task::needle || request.compression == Compression::context_only) {
      check_run(policy, without_generated());
    }
    check_combination(policy);
    std::optional<ProbeKind> probe;
    if (has_trait(policy, &PolicyTraits::reads_probe)) {
      probe = request.probe.value_or(ProbeKind::repeat);
    }
    for (const Budget& budget : request.budgets) settings.push_back({policy, budget, probe});
  }
  return settings;
}

constexpr std::size_t kMostPrompts = std::size_t{64} << 20U;  // bytes; the file is written often

/// A run of which only its prompt is known.
EvaluationRun case_of(int length, int sample, double depth = kUnknown) {
  EvaluationRun run = EvaluationRun::unknown();
  run.length = length;
  run.sample = sample;
  run.depth = depth;
  return run;
}
EvaluationRun with_case(EvaluationRun run, const EvaluationRun& of_case) {
  run.length = of_case.length;
  run.sample = of_case.sample;
  run.depth = of_case.depth;
  return run;
}

class Evaluator {
 public:
  Evaluator(const EvalRequest& request, Progress& progress, const EvalReport& report)
      : request_(request),
        progress_(progress),
        report_(report),
        config_(read_model_config(request.model.path)),
        info_(describe_model(config_, request.model.path)),
        settings_(settings_of(request)),
        tokenizer_(open_tokenizer(request.model.tokenizer_place())),
        template_(needle_template_of(request.model.path, request.needle_template, request.filler)),
        haystack_(template_, *tokenizer_, request.seed),
        device_(parse_device(request.device)) {
    type_ = parse_compute_type(request.dtype, device_);
    threads_ = use_threads(request.threads, device_, type_);
    // A results file of other settings is found before the model is loaded.
    results_ = begun_evaluation(request.output, described());
    refuse_changed_policies();
    const std::string before = results_.fingerprint;
    results_.fingerprint = model_fingerprint(request.model.path, progress);
    if (!before.empty() && before != results_.fingerprint) {
      throw FileError(
          request.output,
          "holds runs of another model of this name; choose another name for the output");
    }
    for (const std::string& prompt : results_.prompts) prompt_bytes_ += prompt.size();
  }

  Evaluation run() {
    const int longest = *std::max_element(request_.lengths.begin(), request_.lengths.end()) +
                        (request_.task == Task::needle ? template_.answer_tokens : 0);
    const std::string note = beyond_positions(longest, config_);
    if (!note.empty() && report_.note) report_.note(note);
    load();
    total_ = static_cast<long>(cases().size() * settings_.size());
    for (const NeedleCase& one : cases()) {
      if (request_.task == Task::perplexity) {
        perplexity(one.length, one.sample);
      } else {
        needle(one);
      }
    }
    write_evaluation(results_, request_.output);
    return std::move(results_);
  }

  /// The work of run().
  RunsForecast forecast() {
    RunsForecast forecast;
    forecast.dtype = compute_type_name(type_);
    std::error_code error;
    if (std::filesystem::exists(request_.output))
      forecast.bytes = std::filesystem::file_size(request_.output, error);
    forecast.free = free_space(std::filesystem::path(request_.output).parent_path());
    std::map<int, std::uint64_t> prompts;  // bytes, by length
    std::map<std::tuple<int, std::string, std::string>, RunsAlike> alike;
    for (const NeedleCase& one : cases()) {
      progress_.check();
      const EvaluationRun of_case = case_of_prompt(one);
      const std::vector<EvalSetting> settings = missing(of_case);
      if (settings.empty()) continue;
      if (!prompts.contains(one.length)) prompts[one.length] = prompt_bytes(one);
      forecast.bytes += prompts[one.length];
      for (const EvalSetting& setting : settings) {
        ++forecast.missing;
        forecast.bytes += run_bytes(setting, of_case);
        RunsAlike& same = alike[{one.length, setting.policy.text(), setting.named_run().budget}];
        if (same.count++ == 0) same.run = run_of(setting, one.length);
      }
    }
    std::vector<RunsAlike> runs;
    for (const auto& [key, one] : alike) runs.push_back(one);
    forecast.known = done_;
    set_time(foreseen_time(results_.fingerprint, config_, runs), forecast);
    return forecast;
  }

 private:
  void load() {
    model_ = std::make_unique<Transformer>(
        load_transformer(request_.model.path, config_, type_, device_, request_.model.weights));
    running_ = {request_.model.path,
                &config_,
                &info_,
                tokenizer_.get(),
                model_.get(),
                request_.block,
                request_.positions,
                request_.most_shared,
                request_.most_reference,
                probe()};
  }

  /// The prompts; those of a perplexity have no depth.
  std::vector<NeedleCase> cases() const {
    std::vector<NeedleCase> all;
    for (const int length : request_.lengths) {
      for (int sample = 0; sample < request_.samples; ++sample) {
        if (request_.task == Task::perplexity) {
          all.push_back({length, kUnknown, sample});
          continue;
        }
        for (const double depth : request_.depths) all.push_back({length, depth, sample});
      }
    }
    return all;
  }
  static EvaluationRun case_of_prompt(const NeedleCase& one) {
    return case_of(one.length, one.sample, one.depth);
  }

  /// Bytes of a prompt in the results.
  std::uint64_t prompt_bytes(const NeedleCase& one) const {
    const TokenSequence tokens = request_.task == Task::needle
                                     ? haystack_.needle(one, request_.needles).tokens
                                     : haystack_.text(one.length, one.sample);
    return prompt_text(case_of_prompt(one), tokens).size();
  }
  /// Bytes of a run there: its line, with numbers of full length.
  std::uint64_t run_bytes(const EvalSetting& setting, const EvaluationRun& of_case) const {
    constexpr double kNumber = 0.12345678901234567;
    EvaluationRun run = with_case(setting.named_run(), of_case);
    run.entries = run.tokens = of_case.length;
    run.expected = run.answer = "12345";
    run.loss = run.loss_difference = run.kl = run.same_top1 = run.seconds = kNumber;
    if (setting.budget) {
      run.hidden.layers.assign(static_cast<std::size_t>(info_.num_layers), kNumber);
      run.hidden_cosine = run.hidden;
    }
    run.prompt = 10;
    return run_json(run, request_.task).dump().size() + 2;
  }
  RunInfo run_of(const EvalSetting& setting, int length) const {
    RunInfo run{.block_size = request_.block,
                .prompt_length = length,
                .dtype = compute_type_name(type_),
                .device = device_.str(),
                .threads = threads_};
    if (request_.task == Task::needle) run.generated = template_.answer_tokens;
    if (setting.budget) {
      run.policy = setting.policy.text();
      run.budget = setting.budget->resolve(length);
    }
    return run;
  }

  /// How the context is read a second time; not at all where no policy needs that.
  std::optional<ProbeKind> probe() const {
    for (const EvalSetting& setting : settings_) {
      if (setting.probe) return setting.probe;
    }
    return std::nullopt;
  }

  /// Settings that must be equal for results to go on.
  EvaluationSettings described() const {
    EvaluationSettings settings;
    settings.task = request_.task;
    settings.model = info_.name;
    settings.dtype = compute_type_name(type_);
    settings.block = request_.block;
    settings.compact = request_.positions == Positions::compact;
    settings.seed = request_.seed;
    settings.filler_sentences = static_cast<int>(template_.filler.size());
    if (request_.task == Task::perplexity) return settings;
    settings.needles = request_.needles;
    settings.context_only = request_.compression == Compression::context_only;
    settings.needle = template_.needle;
    settings.question = template_.question;
    return settings;
  }

  /// Runs of a policy whose files or plugin have changed since do not go together with new ones.
  void refuse_changed_policies() const {
    for (const EvalSetting& setting : settings_) {
      const EvaluationRun wanted = setting.named_run();
      for (const EvaluationRun& run : results_.runs) {
        if (run.policy != wanted.policy || run.policy_files == wanted.policy_files) continue;
        throw FileError(request_.output, "holds runs of " + setting.policy.text() +
                                             " with other files or another build of its plugin; "
                                             "name another file for the results");
      }
    }
  }

  /// Settings whose run of this case is not in the results.
  std::vector<EvalSetting> missing(const EvaluationRun& of_case) {
    std::vector<EvalSetting> wanted;
    for (const EvalSetting& setting : settings_) {
      const EvaluationRun run = with_case(setting.named_run(), of_case);
      const bool known =
          std::any_of(results_.runs.begin(), results_.runs.end(),
                      [&](const EvaluationRun& one) { return one.is_of_same_case(run); });
      if (!known) wanted.push_back(setting);
      done_ += known ? 1 : 0;
    }
    return wanted;
  }

  /// A prompt as the results keep it.
  std::string prompt_text(const EvaluationRun& of_case, const TokenSequence& tokens) const {
    nlohmann::ordered_json prompt{{"length", static_cast<int>(of_case.length)}};
    if (!std::isnan(of_case.depth)) prompt["depth"] = of_case.depth;
    prompt["sample"] = static_cast<int>(of_case.sample);
    prompt["filler"] = request_.filler ? request_.filler->filename().string() : "template";
    if (request_.task == Task::needle) prompt["answer_tokens"] = template_.answer_tokens;
    prompt.update(stored_prompt(tokens));
    return prompt.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  }

  /// Keeps a prompt in the results: what it was made from, its tokens and their segments. Its
  /// number, which its runs have; −1 where the results have become too large for it.
  int stored(const EvaluationRun& of_case, const TokenSequence& tokens) {
    std::string text = prompt_text(of_case, tokens);
    std::vector<std::string>& all = results_.prompts;
    const auto known = std::find(all.begin(), all.end(), text);
    if (known != all.end()) return static_cast<int>(known - all.begin());
    if (prompt_bytes_ + text.size() <= kMostPrompts) {
      prompt_bytes_ += text.size();
      all.push_back(std::move(text));
      return static_cast<int>(all.size()) - 1;
    }
    if (!std::exchange(told_, true) && report_.note)
      report_.note("the results hold 64 MiB of prompts: later runs are kept without theirs");
    return -1;
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
  void make_runs(Runs& runs, const std::vector<EvalSetting>& settings, const EvaluationRun& of_case,
                 int prompt, Clock::time_point begin) {
    for (const EvalSetting& setting : settings) {
      if (setting.budget) begin = Clock::now();
      EvaluationRun run = with_case(runs.run(setting, progress_), of_case);
      run.prompt = prompt;
      run.seconds = seconds_since(begin);
      ++done_;
      if (report_.run) report_.run(done_, total_, run);
      results_.runs.push_back(std::move(run));
    }
    write_evaluation(results_, request_.output);
  }

  void needle(const NeedleCase& wanted) {
    const EvaluationRun of_case = case_of(wanted.length, wanted.sample, wanted.depth);
    const std::vector<EvalSetting> settings = missing(of_case);
    if (settings.empty()) return;
    NeedleTask task = haystack_.needle(wanted, request_.needles);
    const int most = most_entries(static_cast<int>(task.tokens.ids.size()));
    const int prompt = stored(of_case, task.tokens);
    const auto begin = Clock::now();
    NeedleRuns runs(running_, std::move(task), template_.answer_tokens,
                    request_.compression == Compression::context_only, most, progress_);
    make_runs(runs, settings, of_case, prompt, begin);
  }

  void perplexity(int length, int sample) {
    const EvaluationRun of_case = case_of(length, sample);
    const std::vector<EvalSetting> settings = missing(of_case);
    if (settings.empty()) return;
    const TokenSequence text = haystack_.text(length, sample);
    const int prompt = stored(of_case, text);
    const int most = most_entries(static_cast<int>(text.ids.size()));
    const auto begin = Clock::now();
    PerplexityRuns runs(running_, text, most, progress_, report_.note);
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
  at::Device device_;
  at::ScalarType type_ = at::kFloat;
  int threads_ = 0;
  Evaluation results_;
  std::size_t prompt_bytes_ = 0;
  std::unique_ptr<Transformer> model_;
  RunningModel running_;
  long done_ = 0, total_ = 0;
  bool told_ = false;  // that prompts are not kept any more
};

}  // namespace

Evaluation evaluate(const EvalRequest& request, Progress& progress, const EvalReport& report) {
  const c10::InferenceMode no_gradients;
  return Evaluator(request, progress, report).run();
}

RunsForecast forecast_evaluation(const EvalRequest& request, Progress& progress) {
  return Evaluator(request, progress, {}).forecast();
}

}  // namespace kvloupe
