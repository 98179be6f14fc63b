#pragma once
// One layer's caches with a policy in charge: what a replay and a running model have in common.

#include <cstdint>
#include <memory>
#include <vector>

#include "analysis/cache/cache_attention.h"
#include "analysis/cache/head_cache.h"
#include "analysis/cache/place_turns.h"
#include "analysis/policy/policy.h"

namespace kvloupe {

/// Where keys and queries are turned to for attention: to their token index, or to their place in
/// the head's cache (StreamingLLM's way).
enum class Positions { original, compact };

/// What one block brings to a layer. Keys and queries are turned to their token index in any case.
struct BlockStates {
  int step = 0;
  Block block;
  std::vector<MatrixView> queries;       // [Hq] of [m,d]
  std::vector<MatrixView> keys;          // [Hk] of [m,d]
  std::vector<MatrixView> values;        // [Hk] of [m,d]; may be empty where no policy reads them
  const WholeSequence* whole = nullptr;  // where the whole sequence is known
};

class EvictingLayer {
 public:
  /// Throws as make_layer_policy does; WorkError where compact positions need a rotation that is
  /// not known.
  EvictingLayer(const PolicySpec& policy, const LayerContext& context, PolicyOptions options = {},
                Positions positions = Positions::original);

  /// Appends the block to every head's cache, attends and asks the policy: a decision for each head
  /// [Hk], not yet carried out. With compact positions the policy sees the attention of the turned
  /// keys and queries, but measures keys as turned to their token index, where they stay the same.
  std::vector<HeadDecision> step(const BlockStates& states);
  /// Merges and removes what one head's decision says. Heads may be served at the same time.
  void carry_out(int head, const HeadDecision& decision);

  const HeadCache& head(int head) const { return heads_[static_cast<std::size_t>(head)]; }

 private:
  void begin_attention(const StepView& view);

  std::unique_ptr<LayerPolicy> policy_;
  int group_size_;
  CacheAttention attention_;
  std::vector<HeadCache> heads_;  // [Hk]

  std::unique_ptr<PlaceTurns> turns_;   // compact positions only
  std::vector<Matrix> keys_, queries_;  // [Hk], [Hq]: turned to their places
  std::vector<CacheView> attended_;     // [Hk]
  std::vector<MatrixView> attending_;   // [Hq]
};

/// Enters `step` in evicted_at [T] for each of the cache's tokens that a decision does not keep.
void mark_evicted(const HeadDecision& decision, const std::vector<std::int32_t>& tokens, int step,
                  std::vector<std::int32_t>& evicted_at);

}  // namespace kvloupe
