#pragma once
// Runs the items of a study in the model: those of `kvloupe-capture study` and `eval`.

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "analysis/base/core/progress.h"
#include "analysis/study/study_work.h"
#include "analysis/trace/trace.h"
#include "capture/eval/haystack.h"
#include "capture/eval/prompt_runs.h"
#include "capture/model/model_choice.h"

namespace kvloupe {

/// What an evaluation may set, and a study does not.
struct RunSettings {
  std::optional<std::filesystem::path> needle_template = {}, filler = {};  // needle_template_of()
  /// As RunningModel has them.
  std::int64_t most_shared = std::int64_t{1} << 30;
  std::int64_t most_reference = std::int64_t{1} << 30;
  std::optional<ProbeKind> probe = {};
  Progress* progress = nullptr;  // can cancel the work
};

/// Runs items in the model. Questions about one context at one setting are one run, which branches.
/// Those of one prompt or context write their answers together (run_together(); in
/// float32 on the CPU, with expanded weights). The model is loaded once. What the runs of one
/// prompt share stays until the next prompt: the blocks before the first eviction, the full cache's
/// distributions, and for the task drift its trace, in a folder of its own among the system's
/// temporary files that goes with the worker.
class RunWorker final : public ItemWorker {
 public:
  /// `device`: cpu, cuda or cuda:i. `threads`: for the model's products; 0: torch's own choice.
  /// `choice`: the tokenizer and how weights are kept; the study names the model. `note` gets each
  /// note of a prompt once: see read_set_prompt(), beyond_positions(), Perplexity.
  RunWorker(std::string device, int threads, ModelChoice choice = {},
            std::function<void(const std::string&)> note = {}, RunSettings settings = {});
  ~RunWorker() override;
  using ItemWorker::compute;
  std::vector<StudyOutcome> compute_all(std::span<const StudyTask> tasks) override;
  int most_together() const override { return 32; }
  /// The run of an item of the last call, of a task but drift, with all its numbers; `seconds`
  /// without the loading and without what the runs of the prompt share; of runs made together, an
  /// equal share.
  const EvaluationRun& run_of(int item) const { return runs_.at(item); }

 private:
  struct OpenModel;
  void compute(const StudyTask& task, StudyOutcome& outcome) override;
  void open_model(const StudyTask& task);
  void open_prompt(const StudyTask& task);
  EvaluationRun asked_run(const StudyTask& task, const EvalSetting& setting);
  /// How many runs like this one may be made together, beside the prompt's; the prompt is open.
  int most_like(const StudyTask& task) const;
  void note(const std::string& text);
  Prompt read(const StudyTask& task, const PromptPlace& place);
  TokenSequence prompt_of(const StudyTask& task);
  void store(const StudyTask& task, const TokenSequence& tokens, int answer_tokens,
             std::vector<std::string> answers, std::vector<AnswerRule> rules = {});
  std::vector<NeedleTask> questions_of(const StudyTask& task, bool context_only);
  void drift(const StudyTask& task, const EvalSetting& setting, StudyOutcome& outcome);
  std::filesystem::path captured(const StudyTask& task, const EvalSetting& setting,
                                 const char* name);

  std::string device_;
  ModelChoice choice_;
  int threads_;
  std::function<void(const std::string&)> note_;
  std::set<std::string> noted_;
  RunSettings settings_;
  Progress own_progress_;
  Progress& progress_;
  std::map<int, EvaluationRun> runs_;  // by item
  std::mutex runs_mutex_;
  PromptIdentities identities_;
  std::unique_ptr<OpenModel> model_;
  RunningModel running_;
  // The prompt at hand is of one of these kinds:
  std::string prompt_;  // which it is; empty: none
  struct Asked {
    std::string stored;                // as results carry it
    std::vector<std::string> answers;  // of a prompt of the tasks needle and answer
    std::vector<AnswerRule> rules;     // of a prompt of the task answer
  };
  std::vector<Asked> asked_;  // the prompt, or by question
  int tokens_ = 0;            // of the (first) prompt
  int read_ = 0;              // tokens before the policy stops: the prompt, or its context
  std::optional<Haystack> haystack_;
  std::uint64_t haystack_seed_ = 0;
  std::unique_ptr<NeedleRuns> needle_;
  std::unique_ptr<PerplexityRuns> perplexity_;
  TokenSequence sequence_;  // of prompts
  /// By setting, for the questions that are not asked yet.
  std::map<std::string, std::vector<EvaluationRun>> known_;
  std::unique_ptr<Trace> full_trace_;
  std::filesystem::path folder_;  // for traces; empty: not made yet
};

}  // namespace kvloupe
