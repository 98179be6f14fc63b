// merged keys: how well one entry stands for several.

#include <cmath>
#include <limits>

#include "analysis/measure/measures.h"

namespace kvloupe::measures {

namespace {
/// Mean over the step's merges of keys; NaN where there were none.
double mean_of(const StepRecord& record, double MergeMeasures::*field) {
  double sum = 0.0, count = 0.0;
  for (const MergeMeasures& merge : record.merge_measures) {
    if (!std::isfinite(merge.*field)) continue;
    sum += merge.*field;
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
           [](const StepRecord& r) { return mean_of(r, &MergeMeasures::effective_members); }},
      {.name = "merged_key_cosine",
       .title = "Cosine of merged key and members",
       .formula = "mean of cos(sum of w_i k_i, k_i)",
       .source = "ours, from KVMerger's eq. 5",
       .better = Better::larger,
       .summary = Summary::last,
       .help = "How alike a merged key and the keys that it stands for are: their mean cosine.",
       .of_step =
           [](const StepRecord& r) { return mean_of(r, &MergeMeasures::mean_member_cosine); }},
  };
  return family;
}

}  // namespace kvloupe::measures
