// A policy's spec, a list of specs, a budget: what is read is written so that it reads the same.

#include "analysis/base/core/error.h"
#include "analysis/policy/kit/spec.h"
#include "tests/fuzz/fuzz_target.h"

KVLOUPE_FUZZ_TARGET(policy) {
  using namespace kvloupe;
  try {
    parse_budget(input);
  } catch (const UsageError&) {
  }
  try {
    parse_policy_list(input);
  } catch (const UsageError&) {
  }
  const PolicySpec policy = parse_policy(input);
  fuzz::require(parse_policy(policy.text()) == policy, "the canonical spec is another policy");
}
