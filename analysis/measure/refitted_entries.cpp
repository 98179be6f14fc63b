// refitted entries: the changes that a step makes to entries that stay.

#include <cmath>
#include <limits>

#include "analysis/measure/measures.h"

namespace kvloupe::measures {

namespace {
/// Mean over the step's refitted entries; NaN where there were none.
template <typename Number>
double mean_of(const StepRecord& record, const Number& number) {
  double sum = 0.0, count = 0.0;
  for (const Refit& refit : record.refits) {
    const double own = number(refit);
    if (!std::isfinite(own)) continue;
    sum += own;
    count += 1.0;
  }
  return count > 0.0 ? sum / count : std::numeric_limits<double>::quiet_NaN();
}
}  // namespace

MeasureFamily refitted_entries() {
  MeasureFamily family;
  family.group = MeasureGroup::kept;
  family.name = "Refitted entries";
  family.remark =
      "Means over the entries that stay at a step and get a log-bias and a value of their own. "
      "They are neither kept as they were nor evicted.";
  family.scope = MeasureScope::step;
  family.needs_part = "attentionmatching";
  family.measures = {
      {.name = "refit_weight",
       .title = "Weight of refitted entries",
       .unit = "entries",
       .formula = "mean of exp(beta), beta: the log-bias",
       .source = "Attention Matching, arXiv 2602.16284",
       .summary = Summary::last,
       .help = "For how many entries a refitted one counts in the softmax: 1 without a bias.",
       .of_step =
           [](const StepRecord& r) {
             return mean_of(
                 r, [](const Refit& one) { return std::exp(static_cast<double>(one.log_bias)); });
           }},
      {.name = "refit_value_change",
       .title = "Change of refitted values",
       .formula = "mean of ||v' - v||_2 / ||v||_2, v: the value before the step",
       .source = "ours",
       .summary = Summary::last,
       .help = "How far the refitted values are from the values that the entries had before the "
               "step, relative to the length of these.",
       .of_step =
           [](const StepRecord& r) {
             return mean_of(r,
                            [](const Refit& one) { return static_cast<double>(one.value_change); });
           }},
  };
  return family;
}

}  // namespace kvloupe::measures
