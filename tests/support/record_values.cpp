#include "tests/support/record_values.h"

#include <algorithm>
#include <limits>

#include "analysis/replay/measure/measure_catalog.h"

namespace kvloupe::test {

std::vector<QueryHeadMetrics> metrics_of(const StepRecord& record) {
  std::vector<QueryHeadMetrics> result;
  for (int i = 0; i < static_cast<int>(record.query_heads.size()); ++i) {
    const auto value = [&](const char* name) {
      return measure_at(require_measure(name), record, i);
    };
    result.push_back({value("retained_mass"), value("perturbation_l1"), value("bound_l1"),
                      value("perturbation_l2"), value("bound_l2"), value("head_error_l2")});
  }
  return result;
}

void set_value(QueryHeadRecord& record, const char* measure, double value) {
  const auto slot = static_cast<std::size_t>(require_measure(measure).slot);
  record.values.resize(std::max(record.values.size(), slot + 1),
                       std::numeric_limits<double>::quiet_NaN());
  record.values[slot] = value;
}

}  // namespace kvloupe::test
