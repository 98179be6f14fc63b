#pragma once
// From a study of replays to a table of entries by head: `kvloupe advise --heads`.

#include <string>
#include <vector>

#include "analysis/study/head_allocation.h"
#include "analysis/study/study_table.h"

namespace kvloupe {

/// A request for the entries of each head with the smallest expected loss, at a mean of this
/// budget.
struct HeadRequest {
  /// With values by head, of which smaller is better and that are never below 0. The parts of the
  /// residual stream's change are lengths: their squares are the losses, because the squares add up
  /// to the square of the whole change where the parts stand at right angles.
  std::string measure = "answer_residual_part";
  std::string policy;  // the table is learnt from its replays; empty: the study's first
  std::string tried;   // the losses shown are from this policy's replays; empty: the same policy
  std::string budget;  // "20%", or entries
  double floor = 0.0;  // a share of the budget that every head gets in any case
  std::string block;   // as written in the study; empty: its first
};

/// Entries by head, of all heads of all layers, by their order in the study (layer, head).
using HeadEntries = std::vector<double>;

/// A way to share the entries among the heads, and its losses: sums over the heads, means over the
/// prompts.
struct HeadSharing {
  std::string name;
  /// Foretold: each head's mean loss at its number of entries, from the curves of uniform budgets.
  double foretold = 0.0;
  bool at_least = false;  // heads hold fewer entries than the study's smallest budget
  /// In the study's replays of this very policy and budget; NaN: not in the study.
  double measured = 0.0;
  double mean_entries = 0.0;  // per head
  double moved = 0.0;  // share of the entries that are with other heads than under uniform budgets
  double changed = 0.0;  // share of the heads whose entries differ from the budget by over a tenth
};

struct HeadAdvice {
  std::string measure, loss, policy, tried, budget, block;
  long prompts = 0;  // with every value
  long studied = 0;  // of the study, with values or not
  std::vector<double>
      measured;          // entries of the study's budgets, means over the prompts, ascending
  double entries = 0.0;  // of the budget asked for, per head, the mean over the prompts
  double least = 0.0;    // entries that every head gets in any case
  std::vector<HeadMeasureTable::Head> heads;
  HeadEntries table;                  // [heads]
  HeadEntries low, high;              // [heads] 95 % of the tables from resampled prompts
  std::vector<HeadSharing> sharings;  // uniform, the table, then others
  std::vector<std::string> missing;   // policies with other budgets by head that the study lacks
  /// Share of the entries that a table from resampled prompts gives to the same heads; the mean.
  double same_entries = 0.0;
  /// How much of the loss of uniform budgets the table saves, as a share: learnt from resampled
  /// prompts and counted on those that the resample left out. Median and 95 % of kHeadResamples.
  double saved = 0.0, saved_low = 0.0, saved_high = 0.0;
};

inline constexpr int kHeadResamples = 200;

/// Throws UsageError if the study lacks the necessary data; the message lists the present and the
/// needed data.
HeadAdvice advise_heads(const StudyTable& study, const HeadRequest& request);

/// A sentence, the sharings as a table in Markdown, and how stable the table is.
std::string head_advice_markdown(const HeadAdvice& advice);
/// All numbers as JSON.
std::string head_advice_json(const HeadAdvice& advice);

/// The table in the format that the ending of the file's name asks for, for headbudgets(FILE) as
/// shares of the budget: .csv, with the columns layer, head, value; .npy, float64 [layers][heads],
/// with 0 for a head that a layer lacks; or .json, one line {"layer-head": [part of all entries]},
/// the layout of the files of head scores of Retrieval Head (Wu et al. 2024) and HeadKV. Throws
/// UsageError for another one.
std::string head_table_text(const HeadAdvice& advice, const std::string& file);
/// The policy with this table, to paste after --policy.
std::string head_table_spec(const HeadAdvice& advice, const std::string& file);

}  // namespace kvloupe
