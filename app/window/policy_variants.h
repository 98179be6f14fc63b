#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "analysis/policy/spec.h"

namespace kvloupe::window {

/// One way in which a paper, an author's code or a public library does what a policy does.
struct PolicyVariant {
  std::string part;   // the part of the policy it is about
  std::string where;  // "kvpress", "the original", "CriticalKV algorithm 2", ...
  std::string spec;   // the whole policy, canonical
};

/// The policy as others do it: for each of its parts the variants whose values methods and codes
/// name, with the rest of the policy left as it is. Never the policy itself.
std::vector<PolicyVariant> variants_of(const PolicySpec& policy);

}  // namespace kvloupe::window
