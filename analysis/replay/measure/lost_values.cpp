// lost values: how large the values were that a step evicted.

#include "analysis/policy/kit/rows.h"
#include "analysis/replay/measure/measures.h"

namespace kvloupe::measures {

namespace {
void compute(MeasuredStep& step, std::span<double> values) {
  const MatrixView states = step.prefix_values();
  if (!step.evicted() || states.rows() == 0) return;
  const std::span<const std::int32_t> present = step.present();
  const std::vector<std::int32_t>& kept = step.decision().kept;
  double all = 0.0, lost = 0.0, largest = 0.0, largest_lost = 0.0;
  std::size_t next = 0;
  for (std::size_t row = 0; row < present.size(); ++row) {
    const double range = static_cast<double>(value_range(states.row(present[row])));
    all += range;
    largest = std::max(largest, range);
    if (next < kept.size() && static_cast<std::size_t>(kept[next]) == row) {
      ++next;
      continue;
    }
    lost += range;
    largest_lost = std::max(largest_lost, range);
  }
  if (!(all > 0.0)) return;
  const auto n = static_cast<double>(present.size());
  values[0] = (lost / (n - static_cast<double>(kept.size()))) / (all / n);
  values[1] = largest_lost / largest;
}
}  // namespace

MeasureFamily lost_values() {
  MeasureFamily family;
  family.group = MeasureGroup::kept;
  family.name = "Values of what was evicted";
  family.remark =
      "Of the steps at which entries leave. Values are those of the trace; a merged entry counts "
      "with the value that its token had. VaSE (arXiv 2606.03928) finds that loops begin when "
      "values of a large range are evicted: compare with the loops that kvloupe info names.";
  family.scope = MeasureScope::step;
  family.on_request = true;
  family.measures = {
      {.name = "lost_value_range",
       .title = "Value range of the evicted",
       .formula =
           "mean over the entries that leave of max_c v_ic - min_c v_ic, divided by the mean "
           "over all entries before the eviction",
       .source = "VaSE (2026, arXiv 2606.03928)",
       .help = "1: what leaves is as large as what is there; below 1: smaller values leave.",
       .reads = {.queries = false, .output_weights = false, .value_norms = false}},
      {.name = "largest_lost_value_range",
       .title = "Largest value range of the evicted",
       .formula = "the largest max_c v_ic - min_c v_ic of the entries that leave, divided by the "
                  "largest of all entries before the eviction",
       .source = "VaSE (2026, arXiv 2606.03928)",
       .share = true,
       .help = "1: the entry with the largest value range of the cache left at this step.",
       .reads = {.queries = false, .output_weights = false, .value_norms = false}}};
  family.of_step = compute;
  return family;
}

}  // namespace kvloupe::measures
