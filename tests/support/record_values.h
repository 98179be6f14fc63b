#pragma once

#include <vector>

#include "analysis/math/perturbation.h"
#include "analysis/replay/record/records.h"

namespace kvloupe::test {

/// The output perturbation in a record, by query head [G].
std::vector<QueryHeadMetrics> metrics_of(const StepRecord& record);

/// Gives a query head a value of a measure; all that it has none of are NaN.
void set_value(QueryHeadRecord& record, const char* measure, double value);

}  // namespace kvloupe::test
