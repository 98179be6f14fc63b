#pragma once

#include <tbb/parallel_for.h>
#include <tbb/task_group.h>

#include "analysis/base/core/error.h"

#if defined(__SANITIZE_THREAD__)
#include <sanitizer/tsan_interface.h>
#endif

namespace kvloupe {

/// Tells the thread sanitizer the order of events in a parallel loop. oneTBB is not built with the
/// sanitizer. So the sanitizer does not see that the parts of a loop follow the code before the
/// loop, nor that the end of the loop waits for them. Does nothing in other builds.
class LoopOrder {
 public:
  LoopOrder() { release(&begin_); }
  ~LoopOrder() { acquire(&end_); }  // also where a part of the loop has thrown
  LoopOrder(const LoopOrder&) = delete;
  LoopOrder& operator=(const LoopOrder&) = delete;

  /// Lives as long as one part of the loop, on the thread that runs this part.
  class Part {
   public:
    explicit Part(LoopOrder& order) : order_(order) { acquire(&order_.begin_); }
    ~Part() { release(&order_.end_); }
    Part(const Part&) = delete;
    Part& operator=(const Part&) = delete;

   private:
    LoopOrder& order_;
  };

 private:
#if defined(__SANITIZE_THREAD__)
  static void release(char* place) { __tsan_release(place); }
  static void acquire(char* place) { __tsan_acquire(place); }
#else
  static void release(char* /*place*/) {}
  static void acquire(char* /*place*/) {}
#endif

  char begin_ = 0;  // of these two, only the addresses count
  char end_ = 0;
};

/// body(first) … body(last − 1) on the threads of oneTBB; `partitioner`: how oneTBB shares them
/// out. (Not named as in oneTBB: with a partitioner, argument-dependent lookup would prefer that
/// one.) Throws what a body throws, once those that have started are done. Throws Cancelled inside
/// a part of another loop where a part of that one has thrown: oneTBB then silently leaves out the
/// rest of this loop, and a reader of its results would read beyond them.
template <typename Index, typename Body, typename... Partitioner>
void parallel_loop(Index first, Index last, const Body& body, const Partitioner&... partitioner) {
  LoopOrder order;
  tbb::task_group_context context;
  tbb::parallel_for(
      first, last,
      [&](Index index) {
        const LoopOrder::Part part(order);
        body(index);
      },
      partitioner..., context);
  if (context.is_group_execution_cancelled()) throw Cancelled();
}

}  // namespace kvloupe
