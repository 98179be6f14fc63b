// volume: how much room the retained keys span.

#include "analysis/math/diversity.h"
#include "analysis/replay/measure/measures.h"

namespace kvloupe::measures {

MeasureFamily volume() {
  MeasureFamily family;
  family.group = MeasureGroup::kept;
  family.name = "Volume of the keys";
  family.remark =
      "The paper's K K' is singular if n > d. The eigenvalues of K'K above n eps lambda_max are "
      "used; `rank` is their number.";
  family.scope = MeasureScope::step;
  family.at_every_step = true;
  family.measures = {
      {.name = "log_pseudo_determinant",
       .title = "Log pseudo-determinant",
       .formula = "sum of log lambda over the eigenvalues lambda > n eps lambda_max of K'K, K the "
                  "retained keys",
       .source = "after KeyDiff figure 5",
       .better = Better::larger,
       .summary = Summary::last,
       .any_origin = true,
       .beside = "rank",
       .label = "log volume",
       .help = "Σ log λ of KᵀK of the kept keys, over λ > n·eps·λ_max: the log pseudo-determinant. "
               "After KeyDiff figure 5.",
       .reads = StateParts::keys_only()},
      {.name = "rank",
       .title = "Rank of the retained keys",
       .formula = "number of eigenvalues that count",
       .source = "ours",
       .summary = Summary::last,
       .help = "In how many directions the retained keys extend; log volumes are comparable only "
               "at equal rank.",
       .reads = StateParts::keys_only()},
  };
  family.of_step = [](MeasuredStep& step, std::span<double> values) {
    const LogDeterminant volume = log_pseudo_determinant(step.cache().view().keys);
    values[0] = volume.value;
    values[1] = volume.rank;
  };
  return family;
}

}  // namespace kvloupe::measures
