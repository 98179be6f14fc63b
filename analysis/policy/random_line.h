#pragma once

#include <vector>

#include "analysis/policy/kit/spec.h"

namespace kvloupe {

/// `random` with the protection and the schedule of each policy, none twice and none of `policies`:
/// the lines below which a score does not help. A score's own protection is not among them.
std::vector<PolicySpec> random_lines(const std::vector<PolicySpec>& policies);

}  // namespace kvloupe
