#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace kvloupe {

/// One run of kvloupe-capture eval: one prompt with one policy in the model's cache. Numbers that
/// the task does not have are NaN.
struct EvaluationRun {
  std::string policy;  // canonical spec; "full": the full cache
  std::string budget;  // as written: 128, 25%; "full"
  double entries = 0.0;  // the budget in entries
  double length = 0.0;   // as asked for, in tokens
  double tokens = 0.0;   // of the prompt
  double depth = 0.0;    // needles: percent of the text before the one asked for
  double correct = 0.0;  // needles: 1 found, 0 not
  double loss = 0.0;             // perplexity: mean −log p, nats
  double loss_difference = 0.0;  // from the full cache's, nats
  double kl = 0.0;               // KL(full ‖ policy), nats
  double same_top1 = 0.0;        // share of tokens with the full cache's most probable next token
};

/// A results file (docs/evaluation.md).
struct Evaluation {
  std::filesystem::path path;
  enum class Task { needle, perplexity } task = Task::needle;
  std::string model;
  std::vector<EvaluationRun> runs;  // at least one

  /// Policies, and budgets other than the full cache's, in the order in which they first come.
  std::vector<std::string> policies() const;
  std::vector<std::string> budgets() const;
};

/// Reads a results file. Throws FileError: missing, too large, no JSON (truncated, foreign), not
/// such a file, a newer version, a run without the numbers its task has or with ones out of range.
Evaluation read_evaluation(const std::filesystem::path& path);

/// Whether a file begins as a results file does; what it holds is read_evaluation()'s to check.
bool looks_like_evaluation(const std::filesystem::path& path);

/// How large a budget is, mean over its runs; NaN where there are none.
struct BudgetSize {
  double entries = 0.0;
  double share = 0.0;  // of the prompt's tokens
};
BudgetSize mean_size(const Evaluation& evaluation, const std::string& budget);

/// The budget among the file's that is nearest to `share` (entries over the prompt's tokens), by
/// its runs' mean share; empty where only the full cache was run.
std::string nearest_budget(const Evaluation& evaluation, double share);

/// Means over the runs of one policy and budget that have the number; NaN where none has.
double mean_of(const Evaluation& evaluation, const std::string& policy, const std::string& budget,
               double EvaluationRun::*number);

}  // namespace kvloupe
