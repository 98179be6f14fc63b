#include "capture/eval/evaluate.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <system_error>
#include <tuple>
#include <utility>

#include "analysis/base/core/error.h"
#include "analysis/base/system/user_files.h"
#include "analysis/base/text/unknown.h"
#include "analysis/policy/kit/policy_catalog.h"
#include "analysis/study/needle_template.h"
#include "analysis/study/run_study.h"
#include "analysis/trace/sha256.h"
#include "capture/eval/haystack.h"
#include "capture/eval/run_worker.h"
#include "capture/eval/stored_prompt.h"
#include "capture/model/load_transformer.h"
#include "capture/run/compute.h"
#include "capture/run/model_description.h"
#include "capture/tokenizer/kinds/tokenizer_catalog.h"

namespace kvloupe {

namespace {

using Task = Evaluation::Task;
using Json = nlohmann::ordered_json;

constexpr std::size_t kMostPrompts = std::size_t{64} << 20U;  // bytes; the file is written often

/// The evaluation as a study of one task.
Study study_of(const EvalRequest& request, const NeedleTemplate& needles) {
  ModelTask task;
  task.task = request.task == Task::needle ? kNeedleTask : kPerplexityTask;
  task.lengths = request.lengths;
  if (request.task == Task::needle) task.depths = request.depths;
  task.samples = request.samples;
  task.needles = request.needles;
  task.seed = request.seed;
  if (request.needle_template || request.filler) {
    Sha256 content;
    content.add(fmt::format("{}\n{}\n{} {}\n{}\n\n{}", needles.needle, needles.question,
                            needles.lowest, needles.highest, fmt::join(needles.words, "\n"),
                            fmt::join(needles.filler, "\n")));
    task.made_of = " of " + content.hex();
  }
  Study study;
  study.path = "eval";  // the model and files of policies are named from the current folder
  study.model = request.model.path.string();
  study.model_path = request.model.path;
  study.tasks = {std::move(task)};
  study.chat = request.model.chat;
  study.system = request.model.system;
  study.dtype = request.dtype;
  study.compact = request.positions == Positions::compact;
  study.probe = probe_name(request.probe.value_or(ProbeKind::repeat));
  study.policies = request.policies;
  study.budgets = request.budgets;
  study.blocks = {request.block};
  study.compression = request.compression;
  check_task_policies(study);
  return study;
}

/// Keeps the results of an evaluation as JSON (docs/evaluation.md), which may hold runs of other
/// requests too, or as those of a study.
class Evaluator final : public OutcomeStore {
 public:
  Evaluator(const EvalRequest& request, Progress& progress, const EvalReport& report)
      : request_(request),
        progress_(progress),
        report_(report),
        config_(read_model_config(request.model.path)),
        info_(describe_model(config_, request.model.path)),
        template_(needle_template_of(request.model.path, request.needle_template, request.filler)),
        device_(parse_device(request.device)),
        type_(parse_compute_type(request.dtype, device_)),
        threads_(use_threads(request.threads, device_, type_)),
        study_(study_of(request, template_)),
        plan_(plan_study(study_)),
        as_study_(std::filesystem::path(request.output).extension() == ".sqlite" ||
                  is_study_results(request.output)) {
    for (StudyItem& item : plan_.items) {
      item.cost = 0.0;  // all alike, so that they run in the order of the plan
      const StudySource& source = plan_.source(item);
      EvaluationRun run = EvalSetting::of(item.policy, item.budget, study_.probe).named_run();
      run.length = source.length;
      run.sample = source.sample;
      if (request.task == Task::needle) run.depth = source.depth;
      wanted_.push_back(std::move(run));
    }
    if (!as_study_) continue_file();
  }

  Evaluation run() {
    if (!plan_.items.front().problem.empty())
      throw FileError(request_.model.path.string(), "has no weights that can be read");
    std::unique_ptr<StudyLock> lock;
    std::unique_ptr<StudyResults> results;
    if (as_study_) {
      lock = std::make_unique<StudyLock>(request_.output);
      results = std::make_unique<StudyResults>(request_.output, study_, plan_);
    }
    std::optional<ProbeKind> probe;  // where a policy needs the context read a second time
    for (const EvaluationRun& run : wanted_)
      if (!run.probe.empty()) probe = probe_words().at(run.probe);
    RunWorker worker(request_.device, request_.threads, request_.model, report_.note,
                     {request_.needle_template, request_.filler, request_.most_shared,
                      request_.most_reference, probe, &progress_});
    StudyRun run(study_, plan_, as_study_ ? static_cast<OutcomeStore&>(*results) : *this,
                 [&](const StudyRun::News& news) {
                   if (report_.run && news.items > 0 && !made_.policy.empty())
                     report_.run(news.done, news.items, made_);
                 });
    for (;;) {
      const std::vector<StudyTask> tasks = run.next(0, worker.most_together());
      if (tasks.empty()) break;
      std::vector<StudyOutcome> outcomes = worker.compute_all(tasks);
      std::stable_partition(outcomes.begin(), outcomes.end(),
                            [](const StudyOutcome& one) { return !one.failure; });
      for (const StudyOutcome& outcome : outcomes) {
        if (outcome.failure || progress_.cancelled()) {
          if (!results_.runs.empty()) write_evaluation(results_, request_.output);
          progress_.check();
          std::rethrow_exception(outcome.failure);
        }
        made_ = worker.run_of(outcome.item);
        // Its files as the request names them, and its prompt.
        const EvaluationRun& wanted = wanted_[static_cast<std::size_t>(outcome.item)];
        std::tie(made_.policy, made_.policy_files, made_.length, made_.depth, made_.sample) =
            std::tie(wanted.policy, wanted.policy_files, wanted.length, wanted.depth,
                     wanted.sample);
        run.record(outcome);
      }
    }
    if (as_study_) return read_evaluation(request_.output);
    write_evaluation(results_, request_.output);
    return std::move(results_);
  }

  std::vector<std::string> states() override {
    std::set<std::string> known;
    for (const EvaluationRun& run : results_.runs) known.insert(run.name_of_case());
    states_.clear();
    for (const EvaluationRun& run : wanted_)
      states_.emplace_back(known.insert(run.name_of_case()).second ? "waiting" : "done");
    return states_;
  }

  /// Writes the file after the last run of a prompt.
  void record(const StudyOutcome& outcome) override {
    made_.prompt = stored(Json::parse(outcome.prompt.stored));
    results_.runs.push_back(made_);
    auto next = static_cast<std::size_t>(outcome.item);
    const int prompt = plan_.items[next].trace;
    states_[next] = "done";
    while (next < states_.size() && plan_.items[next].trace == prompt && states_[next] == "done")
      ++next;
    if (next == states_.size() || plan_.items[next].trace != prompt)
      write_evaluation(results_, request_.output);
  }

  RunsForecast forecast() {
    const std::unique_ptr<Tokenizer> tokenizer = open_tokenizer(
        request_.model.tokenizer_place(), request_.model.chat, request_.model.system);
    const Haystack haystack(template_, *tokenizer, request_.seed);
    RunsForecast forecast;
    forecast.dtype = compute_type_name(type_);
    std::error_code error;
    const bool begun = std::filesystem::exists(request_.output, error);
    if (begun) forecast.bytes = std::filesystem::file_size(request_.output, error);
    forecast.free = free_space(std::filesystem::path(request_.output).parent_path());
    const std::vector<std::string> states =
        as_study_ && begun ? StudyResults(request_.output, study_, plan_).states() : this->states();
    std::map<int, std::uint64_t> prompts;  // bytes, by length
    std::map<std::tuple<int, std::string, std::string>, RunsAlike> alike;
    int prompt = -1;
    for (std::size_t i = 0; i < states.size(); ++i) {
      progress_.check();
      if (states[i] == "done") {
        ++forecast.known;
        continue;
      }
      ++forecast.missing;
      const EvaluationRun& wanted = wanted_[i];
      const auto length = static_cast<int>(wanted.length);
      if (std::exchange(prompt, plan_.items[i].trace) != plan_.items[i].trace) {
        const auto [bytes, fresh] = prompts.try_emplace(length, 0);
        if (fresh) bytes->second = prompt_bytes(haystack, wanted);
        forecast.bytes += bytes->second;
      }
      forecast.bytes += run_bytes(wanted);
      RunsAlike& same = alike[{length, wanted.policy, wanted.budget}];
      if (same.count++ == 0) same.run = run_of(wanted);
    }
    std::vector<RunsAlike> runs;
    for (const auto& [key, one] : alike) runs.push_back(one);
    set_time(foreseen_time(fingerprint(), config_, runs), forecast);
    return forecast;
  }

 private:
  /// Takes the runs that the file holds; they must go together with those to come.
  void continue_file() {
    EvaluationSettings settings;
    settings.task = request_.task;
    settings.model = info_.name;
    settings.dtype = compute_type_name(type_);
    settings.block = request_.block;
    settings.compact = study_.compact;
    settings.seed = request_.seed;
    if (request_.model.chat) {
      const auto tokenizer =
          open_tokenizer(request_.model.tokenizer_place(), true, request_.model.system);
      settings.chat = tokenizer->chat->facts;
    }
    settings.filler_sentences = static_cast<int>(template_.filler.size());
    if (request_.task == Task::needle) {
      settings.needles = request_.needles;
      settings.context_only = request_.compression == Compression::context_only;
      settings.needle = template_.needle;
      settings.question = template_.question;
    }
    results_ = begun_evaluation(request_.output, settings);
    std::map<std::string, std::string> files;
    for (const EvaluationRun& run : wanted_) files.emplace(run.policy, run.policy_files);
    for (const EvaluationRun& run : results_.runs) {
      const auto now = files.find(run.policy);
      if (now == files.end() || now->second == run.policy_files) continue;
      throw FileError(request_.output, "holds runs of " + run.policy +
                                           " with other files or another build of its plugin; "
                                           "name another file for the results");
    }
    const std::string before = std::exchange(results_.fingerprint, fingerprint());
    if (!before.empty() && before != results_.fingerprint) {
      throw FileError(
          request_.output,
          "holds runs of another model of this name; choose another name for the output");
    }
    for (const std::string& prompt : results_.prompts) prompt_bytes_ += prompt.size();
  }

  /// Of the model; it stands first in the identity of each prompt.
  std::string fingerprint() const {
    const std::string& identity = plan_.sources.front().identity;
    return identity.substr(0, identity.find(' '));
  }

  /// A prompt as the results keep it, from what a study keeps of it.
  std::string prompt_text(const EvaluationRun& run, const Json& kept) const {
    Json prompt{{"length", static_cast<int>(run.length)}};
    if (!std::isnan(run.depth)) prompt["depth"] = run.depth;
    prompt["sample"] = static_cast<int>(run.sample);
    prompt["filler"] = request_.filler ? request_.filler->filename().string() : "template";
    if (request_.task == Task::needle) prompt["answer_tokens"] = template_.answer_tokens;
    for (const char* part : {"ids", "segments"}) prompt[part] = kept.at(part);
    return prompt.dump(-1, ' ', false, Json::error_handler_t::replace);
  }

  /// Keeps a prompt in the results. Its number, which its runs have; −1 where the results have
  /// become too large for it.
  int stored(const Json& kept) {
    std::string text = prompt_text(made_, kept);
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

  /// Bytes of a prompt in the results.
  std::uint64_t prompt_bytes(const Haystack& haystack, const EvaluationRun& run) const {
    const NeedleCase one{static_cast<int>(run.length), run.depth, static_cast<int>(run.sample)};
    const TokenSequence tokens = request_.task == Task::needle
                                     ? haystack.needle(one, request_.needles).tokens
                                     : haystack.text(one.length, one.sample);
    return prompt_text(run, stored_prompt(tokens)).size();
  }
  /// Bytes of a run there: its line, with numbers of full length.
  std::uint64_t run_bytes(EvaluationRun run) const {
    constexpr double kNumber = 0.12345678901234567;
    run.entries = run.tokens = run.length;
    run.expected = run.answer = "12345";
    run.loss = run.loss_difference = run.kl = run.same_top1 = run.seconds = kNumber;
    if (run.budget != kFullCache) {
      run.hidden.layers.assign(static_cast<std::size_t>(info_.num_layers), kNumber);
      run.hidden_cosine = run.hidden;
    }
    run.prompt = 10;
    return run_json(run, request_.task).dump().size() + 2;
  }
  RunInfo run_of(const EvaluationRun& wanted) const {
    RunInfo run{.block_size = request_.block,
                .prompt_length = static_cast<int>(wanted.length),
                .dtype = compute_type_name(type_),
                .device = device_.str(),
                .threads = threads_};
    if (request_.task == Task::needle) run.generated = template_.answer_tokens;
    if (wanted.budget != kFullCache) {
      run.policy = wanted.policy;
      run.budget = parse_budget(wanted.budget).resolve(run.prompt_length);
    }
    return run;
  }

  const EvalRequest& request_;
  Progress& progress_;
  const EvalReport& report_;
  ModelConfig config_;
  ModelInfo info_;
  NeedleTemplate template_;
  at::Device device_;
  at::ScalarType type_;
  int threads_;
  Study study_;
  StudyPlan plan_;
  bool as_study_;
  std::vector<EvaluationRun> wanted_;  // by item: what is known of its run before
  std::vector<std::string> states_;
  EvaluationRun made_;  // the last run
  Evaluation results_;
  std::size_t prompt_bytes_ = 0;
  bool told_ = false;  // that prompts are not kept any more
};

}  // namespace

Evaluation evaluate(const EvalRequest& request, Progress& progress, const EvalReport& report) {
  return Evaluator(request, progress, report).run();
}

RunsForecast forecast_evaluation(const EvalRequest& request, Progress& progress) {
  return Evaluator(request, progress, {}).forecast();
}

}  // namespace kvloupe
