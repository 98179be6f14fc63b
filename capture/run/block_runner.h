#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "analysis/base/core/progress.h"
#include "analysis/replay/cache/evicting_layer.h"
#include "analysis/trace/model_info.h"
#include "capture/model/block_attention.h"
#include "capture/model/kv_cache.h"
#include "capture/model/transformer.h"

namespace kvloupe {

/// One layer's work on one block, before the policy may evict from the layer's cache.
struct LayerStep {
  int step = 0;
  int layer = 0;
  Block block;
  const StateTensors& states;       // [1,H,m,d]
  const BlockAttention& attention;  // of the block's queries over the cache
  LayerCache& cache;                // may be changed: nothing reads it in this step any more
};

/// A block as a runner computed it.
struct RecordedBlock {
  Block block;
  std::vector<StateTensors> states;  // [L]
  at::Tensor last;                   // [1,1,D]: the last layer's output for its last token
  std::vector<std::vector<float>> residual_changes;  // [L] of [m]: ResidualChanges
  std::vector<at::Tensor> last_outputs;              // [L] of [D]: of its last token
};

/// Gets the output of a layer, [1,m,D].
using HiddenHook = std::function<void(int layer, const at::Tensor& hidden)>;

/// Runs one sequence through a model, block by block, on a KV cache. Knows neither files nor the
/// origin of the tokens.
class BlockRunner {
 public:
  struct Options {
    int most_tokens = 0;  // of the sequence
    int capacity = 0;     // entries of a head to allocate first; 0: most_tokens
    Storage storage = Storage::float32;
    bool keep_rows = false;
    Positions positions = Positions::original;
  };
  BlockRunner(const Transformer& model, const Options& options);

  /// Tokens run so far.
  int length() const { return length_; }
  /// Runs the next tokens as one block; calls `on_layer` after each layer has attended, and
  /// `on_hidden` at the layer's end. Returns the last layer's output, [1,m,D]. Throws Cancelled
  /// through progress.
  at::Tensor run(std::span<const std::int32_t> ids,
                 const std::function<void(const LayerStep&)>& on_layer, const Progress& progress,
                 const HiddenHook& on_hidden = {});
  /// Gets the states of tokens that run beside the sequence, and the norm of the input of the
  /// layer's attention, float32 [m].
  using AsideHook =
      std::function<void(int layer, const StateTensors& states, const at::Tensor& input_norm)>;
  /// Runs tokens as if they came right after the first `context` tokens, and leaves the caches as
  /// they are; these must hold all of the context. Throws Cancelled.
  void run_aside(std::span<const std::int32_t> ids, int context, const AsideHook& on_layer,
                 const Progress& progress) const;
  /// What runs change: from there the runner can go on again, with other tokens.
  struct State {
    std::vector<LayerCache> caches;
    int length = 0, steps = 0;
  };
  State state() const;
  void go_on_from(const State& state);
  /// A layer's cache, between steps.
  LayerCache& cache(int layer) { return caches_[static_cast<std::size_t>(layer)]; }
  /// Changes the caches as run() of the same tokens would, after another runner computed the block
  /// from caches with the same content; `on_layer` gets its states and no attention. Throws
  /// Cancelled.
  void repeat(const RecordedBlock& recorded, const std::function<void(const LayerStep&)>& on_layer,
              const Progress& progress);

 private:
  /// How a layer attends, without rows and at original positions.
  AttentionOptions attention_of(int layer) const;
  /// Makes backward_ reach as far as a sequence of so many tokens needs.
  void turn_back_from(int tokens);

  const Transformer& model_;
  Storage storage_ = Storage::float32;
  bool keep_rows_ = false;
  bool compact_ = false;
  int most_tokens_ = 0;
  Rotations backward_;  // [L], compact positions only; grows, as tokens may never be generated
  std::int64_t turned_back_ = 0;  // its tokens
  std::vector<LayerCache> caches_;
  int length_ = 0;
  int steps_ = 0;
};

}  // namespace kvloupe
