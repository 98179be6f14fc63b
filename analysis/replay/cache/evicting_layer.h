#pragma once
// The caches of one layer under a policy: the code that a replay and a running model share.

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "analysis/policy/kit/policy.h"
#include "analysis/replay/cache/cache_attention.h"
#include "analysis/replay/cache/head_cache.h"
#include "analysis/replay/cache/place_turns.h"

namespace kvloupe {

/// The position to which keys and queries are rotated for attention: their token index, or their
/// place in the head's cache (as in StreamingLLM).
enum class Positions { original, compact };

/// The states that one block adds to a layer. Keys and queries are always rotated to their token
/// index.
struct BlockStates {
  int step = 0;
  Block block;
  std::vector<MatrixView> queries;       // [Hq] of [m,d]
  std::vector<MatrixView> keys;          // [Hk] of [m,d]
  std::vector<MatrixView> values;        // [Hk] of [m,d]; may be empty if no policy reads values
  const WholeSequence* whole = nullptr;  // null if the whole sequence is not known
  /// Whether this is the last block. If the whole sequence is no longer than the model's window,
  /// the result is the same as without a window: no entry leaves the window.
  bool last = false;
  /// Whether the policy acts at this step. If not, nothing is evicted; entries
  /// leave only through the sliding window.
  bool acts = true;
};

class EvictingLayer {
 public:
  /// Throws as make_layer_policy does; WorkError if compact positions need a rotation that is not
  /// known.
  EvictingLayer(const PolicySpec& policy, const LayerContext& context, PolicyOptions options = {},
                Positions positions = Positions::original);

  /// Appends the block to every head's cache and attends. With a sliding window, entries that no
  /// later query sees then leave the window: they are hidden in the caches, are not candidates, use
  /// no budget, and the policy does not know them. Then asks the policy for a decision for each
  /// head [Hk]; carry out every decision, even if nothing is evicted. After a step at which the
  /// policy does not act, no later step may ask it again: it has not seen that step's queries. With
  /// compact positions the policy sees the attention of the keys and queries rotated to their
  /// places, but measures use keys rotated to their token index, which do not change from step to
  /// step.
  std::vector<HeadDecision> step(const BlockStates& states);
  /// Merges and removes the entries of one head as decided, then rounds what stays to few bits
  /// where the policy says so (quant): returns the rows that were rounded, of what stays. May be
  /// called for several heads at the same time.
  RoundedRows carry_out(int head, const HeadDecision& decision);

  /// What steps change: from there the layer can go on again, with other tokens. `acts`: whether
  /// the policy will act again; if not, its own state is left out. Throws CannotCopy.
  struct State {
    std::unique_ptr<LayerPolicy> policy;
    std::vector<HeadCache> heads;
  };
  State state(bool acts) const;
  void go_on_from(const State& state);

  const HeadCache& head(int head) const { return heads_[static_cast<std::size_t>(head)]; }

 private:
  /// Tells the policy which entries leave the window, and hides them. Returns
  /// StepView::first_token.
  int append(const BlockStates& states);
  void begin_attention(const StepView& view);
  std::vector<HeadDecision> kept_whole() const;

  std::unique_ptr<LayerPolicy> policy_;
  std::optional<Quantisation> quantisation_;
  bool values_are_keys_;
  int group_size_;
  Reach reach_;
  CacheAttention attention_;
  std::vector<HeadCache> heads_;  // [Hk]
  std::vector<CacheView> whole_;  // [Hk]: the entries that the step's queries attend to

  std::unique_ptr<PlaceTurns> turns_;   // compact positions only
  std::vector<Matrix> keys_, queries_;  // [Hk], [Hq]: rotated to their places
  std::vector<CacheView> attended_;     // [Hk]
  std::vector<MatrixView> attending_;   // [Hq]
};

/// Writes `step` into evicted_at [T] for each token that leaves a cache when the decision is
/// carried out: the tokens that are not kept, and those that are hidden.
void mark_gone(const HeadDecision& decision, const HeadCache& cache, int step,
               std::vector<std::int32_t>& evicted_at);

}  // namespace kvloupe
