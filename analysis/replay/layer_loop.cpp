#include "analysis/replay/layer_loop.h"

#include <tbb/info.h>
#include <tbb/task_arena.h>

#include <algorithm>

#include "analysis/base/core/parallel_loop.h"
#include "analysis/base/system/blas.h"

namespace kvloupe {

int layers_at_once(std::size_t layer_bytes, std::size_t most_layer_bytes) {
  constexpr std::size_t kHeld = std::size_t{1} << 30U;
  if (layer_bytes <= most_layer_bytes || layer_bytes == 0) return 0;
  return static_cast<int>(std::clamp<std::size_t>(kHeld / layer_bytes, 1, 1024));
}

void for_layers(std::size_t count, const LayerLoop& loop,
                const std::function<void(std::size_t index, const HeadLoop& heads)>& body) {
  const OneBlasThread one_thread;
  const HeadLoop for_heads = [](int heads, const std::function<void(int)>& of_head) {
    // Isolated: a thread that waits for this layer's heads must not start another layer.
    tbb::this_task_arena::isolate([&] { parallel_loop(0, heads, of_head); });
  };
  const int cores = tbb::info::default_concurrency();
  // Threads of the pool serve all loops, whoever started them; which comes first, the arena says.
  tbb::task_arena arena(
      loop.threads > 0 ? std::min(loop.threads, cores) : cores, 1,
      loop.background ? tbb::task_arena::priority::low : tbb::task_arena::priority::normal);
  arena.execute([&] {
    const auto first = static_cast<std::size_t>(loop.first);
    if (first < count) body(first, for_heads);
    const std::size_t at_once =
        loop.most_at_once > 0 ? static_cast<std::size_t>(loop.most_at_once) : count;
    for (std::size_t begin = 0; begin < count; begin += at_once) {
      parallel_loop(
          begin, std::min(begin + at_once, count),
          [&](std::size_t index) {
            if (index != first) body(index, for_heads);
          },
          tbb::simple_partitioner());
    }
  });
}

DecidingLayer::DecidingLayer(const Trace& trace, int layer, LayerStatesCache* cache,
                             const LayerContext& context, Progress& progress) {
  const int source = trace.layer_model(layer).shares_with;
  if (source < 0) return;
  states_ = layer_states(cache, trace, source, StateParts(), progress);
  LayerContext own = context;
  own.layer = source;
  own.model = trace.layer_model(source);
  own.attention = trace.attention(source);
  own.output_weights = states_->output_weights;
  decider_.emplace(LayerDecider{*states_, nullptr, std::move(own)});
}

}  // namespace kvloupe
