#pragma once

#include <string>
#include <vector>

#include "analysis/policy/kit/spec.h"

namespace kvloupe {

/// The name of the chance line in a comparison whose policies all have the same protection and
/// schedule.
inline constexpr const char* kRandomLine = "random, same protection";

/// `random` with the policy's protection and schedule: the line below which the policy's score does
/// not help (Wang et al., 2026, arXiv 2609.03430). Tokens that the score itself protects are
/// written as sinks and recent, unless the policy has such a modifier of its own.
PolicySpec random_line(const PolicySpec& policy);

/// The lines of all policies: none twice, none of `policies`.
std::vector<PolicySpec> random_lines(const std::vector<PolicySpec>& policies);

/// The name of a policy that is the line of another one of `policies`: kRandomLine if it is the
/// line of all policies that evict, else its spec. Empty: it is no line.
std::string random_line_name(const PolicySpec& policy, const std::vector<PolicySpec>& policies);

}  // namespace kvloupe
