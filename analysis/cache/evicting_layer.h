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
  /// Whether no token follows. A sequence that ends no longer than the model's window is the same
  /// as without one: then nothing leaves unseen.
  bool last = false;
};

class EvictingLayer {
 public:
  /// Throws as make_layer_policy does; WorkError where compact positions need a rotation that is
  /// not known.
  EvictingLayer(const PolicySpec& policy, const LayerContext& context, PolicyOptions options = {},
                Positions positions = Positions::original);

  /// Appends the block to every head's cache and attends. Where the model has a sliding window,
  /// entries that no later query sees then leave on its account: hidden in the caches and unknown
  /// to the policy, they are not candidates and use no budget. Asks the policy: a decision for
  /// each head [Hk], to be carried out, also where nothing is evicted. With compact positions the
  /// policy sees the attention of the turned keys and queries, but measures keys as turned to their
  /// token index, where they stay the same.
  std::vector<HeadDecision> step(const BlockStates& states);
  /// Merges and removes what one head's decision says. Heads may be served at the same time.
  void carry_out(int head, const HeadDecision& decision);

  const HeadCache& head(int head) const { return heads_[static_cast<std::size_t>(head)]; }

 private:
  /// Tells the policy what leaves unseen, and hides it. Returns what StepView::first_token is.
  int append(const BlockStates& states);
  void begin_attention(const StepView& view);

  std::unique_ptr<LayerPolicy> policy_;
  int group_size_;
  int window_;
  CacheAttention attention_;
  std::vector<HeadCache> heads_;  // [Hk]
  std::vector<CacheView> whole_;  // [Hk]: what the step's queries attend over

  std::unique_ptr<PlaceTurns> turns_;   // compact positions only
  std::vector<Matrix> keys_, queries_;  // [Hk], [Hq]: turned to their places
  std::vector<CacheView> attended_;     // [Hk]
  std::vector<MatrixView> attending_;   // [Hq]
};

/// Enters `step` in evicted_at [T] for each token that leaves a cache when the decision is carried
/// out: those it does not keep, and those that are hidden.
void mark_gone(const HeadDecision& decision, const HeadCache& cache, int step,
               std::vector<std::int32_t>& evicted_at);

}  // namespace kvloupe
