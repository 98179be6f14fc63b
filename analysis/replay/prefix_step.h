#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "analysis/cache/cache_attention.h"
#include "analysis/cache/head_cache.h"
#include "analysis/policy/kit/policy.h"
#include "analysis/record/layer_states.h"

namespace kvloupe {

/// The first tokens of a layer, read at once with the full cache. A policy then acts once and keeps
/// some of them. Libraries compress a prompt in this way after reading it. Several policies and
/// budgets share the step's attention. Not thread-safe.
class PrefixStep {
 public:
  /// The first `tokens` of the states, which must have queries and values and outlive this object.
  /// The context's budget does not count.
  PrefixStep(const LayerStates& states, const LayerContext& context, int tokens);
  PrefixStep(const PrefixStep&) = delete;
  PrefixStep& operator=(const PrefixStep&) = delete;

  /// The entries there are before the policy acts, ascending: those that later queries see.
  std::span<const std::int32_t> tokens() const { return caches_.front().tokens(); }
  /// For each head [Hk] the rows of tokens() that the policy keeps, ascending. Throws what
  /// make_layer_policy() and the policy throw.
  std::vector<std::vector<std::int32_t>> kept(const PolicySpec& policy, int budget);

 private:
  const LayerContext context_;
  const WholeSequence whole_;
  std::vector<HeadCache> caches_;  // [Hk]
  std::vector<CacheView> read_;    // [Hk]: with what only the prefix's own queries see
  CacheAttention attention_;
  StepView view_;
};

}  // namespace kvloupe
