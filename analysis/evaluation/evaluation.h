#pragma once

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "analysis/base/text/unknown.h"
#include "analysis/evaluation/rescue_results.h"

namespace kvloupe {

struct StudyTable;  // analysis/study/study_table.h

/// How far hidden states are from those of the full cache, after each layer and after the last
/// norm; means over the tokens that the task measures.
struct HiddenDistances {
  std::vector<double> layers;  // [L]; empty: not measured
  double normed = kUnknown;    // for the input of the output head
};

/// One run of kvloupe-capture eval: one prompt with one policy in the model's cache. Numbers that
/// the task does not have are NaN.
struct EvaluationRun {
  std::string policy;                 // canonical spec; "full": the full cache
  std::string budget;                 // as written: 128, 25%; "full"
  std::string policy_files;           // what the policy reads (policy_files()); empty: nothing
  std::string probe;                  // how the context was read a second time; empty: it was not
  double entries = kUnknown;          // the budget in entries
  double length = kUnknown;           // as asked for, in tokens
  double tokens = kUnknown;           // of the prompt
  double depth = kUnknown;            // needles: percent of the text before the needle in question
  double correct = kUnknown;          // needles: 1 found, 0 not
  double sample = kUnknown;           // which of the prompts of that length
  std::string expected, answer;       // needles: the number, and what the model said
  double loop_begin = kUnknown;       // tokens of the answer before its first loop
  double loss = kUnknown;             // perplexity: mean −log p, nats
  double loss_difference = kUnknown;  // from the full cache's, nats
  double kl = kUnknown;               // KL(full ‖ policy), nats
  double same_top1 = kUnknown;    // share of tokens with the full cache's most probable next token
  HiddenDistances hidden;         // ‖h′ − h‖₂ / ‖h‖₂
  HiddenDistances hidden_cosine;  // 1 − cos(h′, h)
  int prompt = -1;                // index into Evaluation::prompts; −1: not kept
  double seconds = kUnknown;

  /// The same for runs of one policy, budget and prompt, of which one is enough.
  std::string name_of_case() const;
};

/// The settings of an evaluation. All runs of a results file share them.
struct EvaluationSettings {
  enum class Task { needle, perplexity, rescue, study } task = Task::needle;
  std::string model;
  std::string dtype;
  int block = 0;         // tokens of a prompt that were run at once; 0: not said
  bool compact = false;  // positions of cached entries
  std::string chat;      // how prompts were written as messages; empty: they were not
  std::uint64_t seed = 0;
  int filler_sentences = 0;      // of the template that prompts were made from
  int needles = 0;               // needles: in a prompt
  bool context_only = false;     // needles: evictions stopped at the question
  std::string needle, question;  // needles: as the template has them
  bool operator==(const EvaluationSettings&) const = default;
};

/// A results file of kvloupe-capture eval (docs/evaluation.md) or rescue (docs/follow.md), or of a
/// study (docs/studies.md).
struct Evaluation : EvaluationSettings {
  std::filesystem::path path;
  std::string identity;  // changes when the file's content does: size and time of the last change
  std::string fingerprint;          // of the model; empty in results of earlier versions
  std::vector<EvaluationRun> runs;  // at least one; study: of each item; rescue: none
  /// With tasks needle and perplexity, one JSON object each: what it was made from, its tokens and
  /// their segments (capture/eval/stored_prompt.h).
  std::vector<std::string> prompts;
  std::optional<RescueResults> rescue;                // with task rescue
  std::shared_ptr<const StudyTable> study = nullptr;  // with task study

  /// Number of layers with hidden states; 0 if no run has them.
  int layers() const;

  /// Policies, and budgets other than that of the full cache, in the order of their first run.
  std::vector<std::string> policies() const;
  std::vector<std::string> budgets() const;
};

/// Reads a results file; that of a study as StudyResults does. Throws FileError: missing, too
/// large, not JSON (truncated, foreign), not a results file, a newer version, a run without the
/// numbers of its task or with numbers out of range, runs with different numbers of layers.
Evaluation read_evaluation(const std::filesystem::path& path);

/// The results in the file at `path`, or without one those of these settings, without runs. Throws
/// FileError if the file contains anything but results of the same settings.
Evaluation begun_evaluation(const std::string& path, const EvaluationSettings& settings);

/// Writes results of tasks needle and perplexity with their summary, in full or not at all. Throws
/// FileError.
void write_evaluation(const Evaluation& evaluation, const std::string& path);

/// A run as the results file has it, for programs that follow the evaluation.
nlohmann::ordered_json run_json(EvaluationRun run, Evaluation::Task task);

/// Means over the runs of one policy and budget, each over the runs that have the number; NaN: none
/// has.
struct EvaluationSummary {
  EvaluationRun mean;
  int runs = 0;
};
/// One for each policy and budget, in the order of their first run.
std::vector<EvaluationSummary> summary_of(const Evaluation& evaluation);

/// Whether a file begins like a results file; read_evaluation() checks its content.
bool looks_like_evaluation(const std::filesystem::path& path);

/// The size of a budget, mean over its runs; NaN without runs.
struct BudgetSize {
  double entries = 0.0;
  double share = 0.0;  // of the prompt's tokens
};
BudgetSize mean_size(const Evaluation& evaluation, const std::string& budget);

/// The budget of the file that is nearest to `share` (entries divided by the prompt's tokens), by
/// the mean share of its runs; empty if only the full cache was run.
std::string nearest_budget(const Evaluation& evaluation, double share);

/// Mean over the runs of one policy and budget that have the number; NaN if no run has it.
double mean_of(const Evaluation& evaluation, const std::string& policy, const std::string& budget,
               double EvaluationRun::*number);
/// The same for hidden states, layer by layer.
HiddenDistances mean_of(const Evaluation& evaluation, const std::string& policy,
                        const std::string& budget, HiddenDistances EvaluationRun::*distances);

/// Fills in the runs behind the results of a study: one run for each item, in the order of their
/// numbers, with the answers that the file kept of those in the model; and model and fingerprint.
/// Throws FileError as StudyResults does.
void add_study_runs(Evaluation& evaluation);

/// Whether an item of a study can be run again: its prompt is in the file.
bool has_prompt(const EvaluationRun& run);

}  // namespace kvloupe
