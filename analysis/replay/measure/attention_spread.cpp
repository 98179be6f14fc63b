// attention spread: on how few entries a query's attention rests.

#include "analysis/math/bounds.h"
#include "analysis/replay/measure/measures.h"

namespace kvloupe::measures {

MeasureFamily attention_spread() {
  MeasureFamily family;
  family.group = MeasureGroup::full_cache;
  family.name = "Spread of the attention";
  family.remark =
      "Measured for the step's last query over the whole captured prefix, whatever the policy. A "
      "first stage with fewer entries cannot reach sigma = 0.5.";
  family.scope = MeasureScope::query_head;
  family.of_full_cache = true;
  family.measures = {{.name = "half_mass_entries",
                      .title = "Entries that hold half the attention",
                      .unit = "entries",
                      .formula = "the smallest k with sum of the k largest A_i > 0.5",
                      .source = "CriticalKV assumption 3.4, appendix A",
                      .help = "The least number of entries that together hold more than half of "
                              "the attention of the step's last query, with the full cache.",
                      .reads = StateParts::keys_only()}};
  family.of_query_head = [](MeasuredStep& step, int query_head, std::span<double> values) {
    values[0] = entries_for_mass(step.attention(query_head), 0.5);
  };
  return family;
}

}  // namespace kvloupe::measures
