#pragma once

#include <string>
#include <vector>

#include "analysis/policy/kit/spec.h"

namespace kvloupe::window {

/// One variant of a policy in a paper, an author's code or a public library.
struct PolicyVariant {
  std::string part;   // the part of the policy that differs
  std::string where;  // "kvpress", "the original", "CriticalKV algorithm 2", ...
  std::string spec;   // the whole policy, canonical
};

/// The variants of a policy: for each of its parts the values that methods and codes use, with the
/// rest of the policy unchanged. Never the policy itself.
std::vector<PolicyVariant> variants_of(const PolicySpec& policy);

}  // namespace kvloupe::window
