#include "analysis/replay/layer_loop.h"

#include <tbb/info.h>
#include <tbb/parallel_for.h>
#include <tbb/task_arena.h>

#include <algorithm>

#include "analysis/cache/one_blas_thread.h"

namespace kvloupe {

void for_layers(std::size_t count, const LayerLoop& loop,
                const std::function<void(std::size_t index, const HeadLoop& heads)>& body) {
  const OneBlasThread one_thread;
  const HeadLoop for_heads = [](int heads, const std::function<void(int)>& of_head) {
    // Isolated: a thread that waits for this layer's heads must not start another layer.
    tbb::this_task_arena::isolate([&] { tbb::parallel_for(0, heads, of_head); });
  };
  const int cores = tbb::info::default_concurrency();
  // Threads of the pool serve all loops, whoever started them; which comes first, the arena says.
  tbb::task_arena arena(
      loop.threads > 0 ? std::min(loop.threads, cores) : cores, 1,
      loop.background ? tbb::task_arena::priority::low : tbb::task_arena::priority::normal);
  arena.execute([&] {
    const auto first = static_cast<std::size_t>(loop.first);
    if (first < count) body(first, for_heads);
    tbb::parallel_for(
        std::size_t{0}, count,
        [&](std::size_t index) {
          if (index != first) body(index, for_heads);
        },
        tbb::simple_partitioner());
  });
}

}  // namespace kvloupe
