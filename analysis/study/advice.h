#pragma once

#include <span>
#include <string>
#include <vector>

#include "analysis/study/study_statistics.h"
#include "analysis/study/study_table.h"

namespace kvloupe {

/// A request for budgets whose expected loss on new prompts of the same kind is at most `at_most`.
struct AdviceRequest {
  /// A measure between 0 and 1; where larger is better, the loss is 1 less the measure. Or any
  /// other measure of which smaller is better and that is never below 0, with `largest`.
  std::string measure = {};
  double at_most = 0.0;    // in the unit of the loss
  double risk = 0.05;      // that a promise is wrong
  double largest = 0.0;    // losses above count as this; 0: the measure lies between 0 and 1
  bool over_full = false;  // of a task: what a prompt loses beside the full cache, at least 0
  bool together = false;   // the risk is that any policy's promise is wrong: risk / policies each
  std::string block = {};  // as written in the study; empty: its first
};

/// The losses of a policy at one budget. All numbers are in the unit of the loss.
struct BudgetRisk {
  std::string budget;            // as written in the study
  double entries = 0.0;          // mean over the prompts
  double mean = 0.0;             // over the prompts
  double low = 0.0, high = 0.0;  // 95 % of the mean where losses are 0 or 1 (Wilson); else NaN
  double bound = 0.0;            // of the expected loss: mean_upper_bound()
  double conformal = 0.0;  // conformal_mean() of each prompt's largest loss at this budget or above
};

struct PolicyAdvice {
  std::string policy;
  long prompts = 0;                 // with a value at every budget
  std::vector<BudgetRisk> budgets;  // by entries, ascending; empty without prompts
  /// Place of the smallest budget from which on every bound is at most `at_most`: budgets are
  /// tested from the largest on until one fails, each at the whole risk (fixed sequence testing;
  /// Angelopoulos et al. 2021, Learn then test). −1: none.
  int promised = -1;
  /// Place of the smallest budget from which on every conformal mean is at most `at_most`; −1.
  int on_average = -1;
  /// Places of budgets with a larger mean loss than a smaller budget.
  std::vector<int> rises;

  /// The losses at the promised budget, without one at the largest; there must be budgets.
  const BudgetRisk& shown() const {
    return promised < 0 ? budgets.back() : budgets[static_cast<std::size_t>(promised)];
  }
};

struct Advice {
  std::string measure, block;
  std::string loss;   // in words: "1 − answer_found"
  double risk = 0.0;  // of each policy's promise
  long needed = 0;    // so many prompts, all without loss, at least
  long studied = 0;   // prompts of the study, with values or not
  std::vector<PolicyAdvice> policies;
};

/// From the results of a study, finished or not. Throws UsageError for an impossible measure, block
/// or number; the message lists the possible ones.
Advice advise(const StudyTable& study, const AdviceRequest& request);

/// Throws UsageError where the prompts are too few for any promise, with how many it takes.
void require_enough_prompts(const Advice& advice, const AdviceRequest& request);

/// The mean, with Wilson's interval where it is a share and all values are 0 or 1; else an interval
/// of NaN.
MeanInterval counted_share(std::span<const double> values, bool share);

/// How many prompts are left out, as runs that failed are, and why that matters; "": none.
std::string left_out_text(const Advice& advice);

/// As Markdown: a sentence about the promise, and a row for each policy.
std::string advice_markdown(const Advice& advice, const AdviceRequest& request);

/// The text of a CSV file: a row for each policy and budget.
std::string advice_csv(const Advice& advice);

}  // namespace kvloupe
