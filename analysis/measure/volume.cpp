// volume: how much room the retained keys span.

#include "analysis/measure/measures.h"

namespace kvloupe::measures {

MeasureFamily volume() {
  MeasureFamily family;
  family.name = "Volume of the keys";
  family.remark =
      "The paper's K K' is singular if n > d. The eigenvalues of K'K above n eps lambda_max are "
      "used; `rank` is their number.";
  family.scope = MeasureScope::step;
  family.measures = {
      {.name = "log_pseudo_determinant",
       .title = "Log pseudo-determinant",
       .unit = "",
       .formula = "sum of log lambda over the eigenvalues lambda > n eps lambda_max of K'K, K the "
                  "retained keys",
       .source = "after KeyDiff figure 5",
       .better = Better::larger,
       .summary = Summary::last,
       .of_step = [](const StepRecord& record) { return record.log_pseudo_determinant; }},
      {.name = "rank",
       .title = "Rank of the retained keys",
       .unit = "",
       .formula = "number of eigenvalues that count",
       .source = "ours",
       .summary = Summary::last,
       .of_step = [](const StepRecord& record) { return static_cast<double>(record.rank); }},
  };
  return family;
}

}  // namespace kvloupe::measures
