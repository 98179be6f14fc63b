#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "analysis/progress.h"
#include "analysis/trace/model_info.h"
#include "capture/model/block_attention.h"
#include "capture/model/kv_cache.h"
#include "capture/model/transformer.h"

namespace kvloupe {

/// One layer's work on one block, before the layer's cache may be cut.
struct LayerStep {
  int layer = 0;
  Block block;
  const LayerStates& states;        // [1,H,m,d]
  const BlockAttention& attention;  // of the block's queries over the cache
};

/// Runs one sequence through a model, block by block, on a KV cache. Knows neither files nor where
/// the tokens come from.
class BlockRunner {
 public:
  /// `capacity`: the most tokens of the sequence.
  BlockRunner(const Transformer& model, int capacity, Storage storage, bool keep_rows);

  /// Tokens run so far.
  int length() const { return length_; }
  /// Runs the next tokens as one block; calls `on_layer` after each layer has attended. Returns
  /// what leaves the last layer, [1,m,D]. Throws Cancelled through progress.
  at::Tensor run(std::span<const std::int32_t> ids,
                 const std::function<void(const LayerStep&)>& on_layer, const Progress& progress);

 private:
  const Transformer& model_;
  Storage storage_;
  bool keep_rows_;
  std::vector<LayerCache> caches_;
  int length_ = 0;
};

}  // namespace kvloupe
