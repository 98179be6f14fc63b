#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace kvloupe {

/// How far hidden states are from the full cache's, after each layer and after the last norm; means
/// over the tokens that the task looks at.
struct HiddenDistances {
  std::vector<double> layers;  // [L]; empty: not measured
  double normed = 0.0;         // of what enters the output head; NaN: not measured
};

/// One run of kvloupe-capture eval: one prompt with one policy in the model's cache. Numbers that
/// the task does not have are NaN.
struct EvaluationRun {
  std::string policy;             // canonical spec; "full": the full cache
  std::string budget;             // as written: 128, 25%; "full"
  double entries = 0.0;           // the budget in entries
  double length = 0.0;            // as asked for, in tokens
  double tokens = 0.0;            // of the prompt
  double depth = 0.0;             // needles: percent of the text before the one asked for
  double correct = 0.0;           // needles: 1 found, 0 not
  double loss = 0.0;              // perplexity: mean −log p, nats
  double loss_difference = 0.0;   // from the full cache's, nats
  double kl = 0.0;                // KL(full ‖ policy), nats
  double same_top1 = 0.0;         // share of tokens with the full cache's most probable next token
  HiddenDistances hidden;         // ‖h′ − h‖₂ / ‖h‖₂
  HiddenDistances hidden_cosine;  // 1 − cos(h′, h)
};

/// A results file (docs/evaluation.md).
struct Evaluation {
  std::filesystem::path path;
  std::string identity;  // changes when the file's content does: size and time of the last change
  enum class Task { needle, perplexity } task = Task::needle;
  std::string model;
  std::vector<EvaluationRun> runs;  // at least one

  /// Layers that hidden states were compared after; 0: in no run.
  int layers() const;

  /// Policies, and budgets other than the full cache's, in the order in which they first come.
  std::vector<std::string> policies() const;
  std::vector<std::string> budgets() const;
};

/// Reads a results file. Throws FileError: missing, too large, no JSON (truncated, foreign), not
/// such a file, a newer version, a run without the numbers its task has or with ones out of range,
/// hidden states of different numbers of layers.
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
/// The same of hidden states, layer by layer.
HiddenDistances mean_of(const Evaluation& evaluation, const std::string& policy,
                        const std::string& budget, HiddenDistances EvaluationRun::*distances);

}  // namespace kvloupe
