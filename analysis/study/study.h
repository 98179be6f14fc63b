#pragma once
// A study: one policy question on many traces, as a file says it (docs/studies.md).

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "analysis/policy/kit/spec.h"
#include "analysis/study/prompt_set.h"
#include "analysis/trace/model_info.h"

namespace kvloupe {

/// The values of each replay that a study's results keep, beside one value per measure: the mean
/// over its heads.
enum class Reduce {
  none,   // a value per head and step
  steps,  // a value per head
  heads,  // a value per step: the mean over the heads
  all     // nothing more
};
/// "none", "steps", "heads", "all".
const char* reduce_name(Reduce reduce);

/// A trace of a study.
struct StudyTrace {
  std::string name;            // as the file says it, from the file's folder
  std::filesystem::path path;  // to open it
};

/// A task of runs in the model (docs/evaluation.md describes the tasks of kvloupe-capture eval).
struct ModelTask {
  std::string task;            // kNeedleTask, kAnswerTask, kPerplexityTask or kDriftTask
  std::vector<int> lengths;    // tokens of generated prompts; empty: prompts are read
  std::vector<double> depths;  // needles: percent of the text before the needle in question
  int samples = 1;             // generated prompts of each length and depth
  int needles = 1;             // in a prompt
  std::uint64_t seed = 1;      // of generated prompts
  int tokens = 32;             // answers: the most that the model says
  std::vector<PromptPlace> prompts = {};  // its own; empty: those of the study
  std::string made_of = {};  // what generated prompts are of; empty: what the model's folder has
};

/// The content of a study file, checked.
struct Study {
  std::filesystem::path path;
  std::vector<StudyTrace> traces;  // in the file's order, those of a glob by name; none twice
  std::string model;               // as the file says it; empty: no runs in a model
  std::filesystem::path model_path;
  std::vector<PromptPlace> prompts;  // in the file's order
  std::vector<ModelTask> tasks;
  bool chat = false;             // prompts are messages in the model's chat template
  std::string system = {};       // with chat: the message before them; empty: none
  std::string dtype = "auto";    // of the runs: auto, f32 or bf16
  bool compact = false;          // positions of cached entries in the runs
  std::string probe = "repeat";  // how runs read the context again, for policies that need that
  std::vector<PolicySpec> policies;
  std::vector<Budget> budgets;
  std::vector<int> blocks = {0};                // tokens, or kWholePrompt; 0: the capture's
  std::optional<Compression> compression = {};  // none: the capture's
  std::vector<std::string> measures;            // of replays
  Reduce reduce = Reduce::steps;

  /// A policy of the study as it is computed: with the files that it names, from the study's
  /// folder.
  PolicySpec computed(const PolicySpec& policy) const;
};

/// A block size in words: "128", "all", or "capture" for 0.
std::string block_text(int block);

/// The measures of a study of replays that names none: what the policy changes for later queries,
/// those of the answer first, and of single heads, too; and the kept share. A trace without such
/// queries has no value.
std::vector<std::string> default_measures();

/// The measures of a study's results: those of its replays, then those of its tasks.
std::vector<std::string> measures_of(const Study& study);

/// Throws UsageError for a policy that cannot run in a model in the study's tasks, and for a chat
/// with a task that asks nothing.
void check_task_policies(const Study& study);

/// Reads a study file, and finds its traces and prompts without opening them. Throws FileError:
/// missing, too large, not JSON, a field that is unknown, missing or of another kind, a wrong
/// policy, budget, block or measure, a value that is there twice, a trace, prompt or model that is
/// missing, a glob without a match, neither traces nor tasks, a policy that cannot run in a model
/// where there are tasks.
Study read_study(const std::filesystem::path& path);

}  // namespace kvloupe
