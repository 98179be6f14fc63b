// merged keys: how well one entry stands for several. Refitted entries: the changes that a step
// makes to entries that stay.

#include <cmath>
#include <functional>
#include <limits>

#include "analysis/replay/measure/measures.h"

namespace kvloupe::measures {

namespace {
/// Mean of a number over the step's merges of keys or refitted entries; NaN where there were none.
template <typename Change, typename Number>
double mean_of(const std::vector<Change>& changes, const Number& number) {
  double sum = 0.0, count = 0.0;
  for (const Change& change : changes) {
    const double own = std::invoke(number, change);
    if (!std::isfinite(own)) continue;
    sum += own;
    count += 1.0;
  }
  return count > 0.0 ? sum / count : std::numeric_limits<double>::quiet_NaN();
}
}  // namespace

MeasureFamily merged_keys() {
  MeasureFamily family;
  family.group = MeasureGroup::kept;
  family.name = "Merged keys";
  family.remark =
      "Means over the merging sets of a step. A merged key is an average of rotated keys, which is "
      "not the rotation of any key.";
  family.scope = MeasureScope::step;
  family.needs_part = "kvmerger";
  family.measures = {
      {.name = "merge_effective_members",
       .title = "Effective members of a merging set",
       .unit = "entries",
       .formula = "1/(sum of w^2): 1 if only the pivot counts",
       .source = "ours, from KVMerger's eq. 7",
       .summary = Summary::last,
       .help =
           "How many members of a merging set count in the merged entry: 1 if only the pivot does.",
       .of_step =
           [](const StepRecord& r) {
             return mean_of(r.merge_measures, &MergeMeasures::effective_members);
           }},
      {.name = "merged_key_cosine",
       .title = "Cosine of merged key and members",
       .formula = "mean of cos(sum of w_i k_i, k_i)",
       .source = "ours, from KVMerger's eq. 5",
       .better = Better::larger,
       .summary = Summary::last,
       .help = "How alike a merged key and the keys that it stands for are: their mean cosine.",
       .of_step =
           [](const StepRecord& r) {
             return mean_of(r.merge_measures, &MergeMeasures::mean_member_cosine);
           }},
  };
  return family;
}

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
             return mean_of(r.refits, [](const Refit& one) {
               return std::exp(static_cast<double>(one.log_bias));
             });
           }},
      {.name = "refit_value_change",
       .title = "Change of refitted values",
       .formula = "mean of ||v' - v||_2 / ||v||_2, v: the value before the step",
       .source = "ours",
       .summary = Summary::last,
       .help = "How far the refitted values are from the values that the entries had before the "
               "step, relative to the length of these.",
       .of_step = [](const StepRecord& r) { return mean_of(r.refits, &Refit::value_change); }},
  };
  return family;
}

}  // namespace kvloupe::measures
