#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "analysis/cache/evicting_layer.h"
#include "analysis/trace/trace_writer.h"
#include "capture/run/block_runner.h"

namespace kvloupe {

/// What a closed-loop run does to its caches.
struct ClosedLoop {
  PolicySpec policy;
  int budget = 0;  // resolved entries
  Positions positions = Positions::original;
};

/// Throws WorkError where a run of so many tokens would be longer than the model's sliding window
/// and positions are compact: within a window, places in the cache are not defined.
void check_positions(const ModelInfo& model, Positions positions, int most_tokens);

/// The policy of a running model: cuts each layer's cache after each block, before the next layer
/// runs; what no later query sees through the model's window leaves it as well. It decides by the
/// same code as a replay, on the CPU in float32, from the states as a trace stores them; so a
/// replay of the trace a run writes decides the same (with original positions).
class CachePolicy {
 public:
  /// Throws UsageError where no running model can follow the policy.
  CachePolicy(const Transformer& model, const ModelInfo& info, const ClosedLoop& loop,
              Storage storage);

  /// Decides about one layer's cache, and cuts it. Steps and blocks of a layer follow one another.
  /// `last`: no token follows (BlockStates::last). Reads no attention of the step. Whether anything
  /// left the cache or was changed in it.
  bool cut(const LayerStep& step, bool last = false);

  /// The step at which each token left each head's cache, evicted or with the model's window; −1:
  /// it is there. [Hk] of [T so far].
  const std::vector<std::vector<std::int32_t>>& evicted_at(int layer) const;
  /// In the order in which they were carried out.
  const std::vector<MergedEntry>& merges(int layer) const;

 private:
  struct Layer {
    std::vector<Matrix> output_weights;  // [Hq] of [d,D], where the policy reads them
    std::unique_ptr<EvictingLayer> caches;
    std::vector<std::vector<std::int32_t>> evicted_at;
    std::vector<MergedEntry> merges;
  };
  bool cut_head(const LayerStep& step, int head, const HeadDecision& decision, Layer& layer);

  Storage storage_;
  std::vector<Layer> layers_;
};

}  // namespace kvloupe
