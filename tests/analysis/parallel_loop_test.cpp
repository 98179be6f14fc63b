#include "analysis/base/core/parallel_loop.h"
#include "tests/support/test.h"

#include <tbb/partitioner.h>
#include <tbb/task_group.h>

#include <cstddef>

namespace kvloupe {
namespace {

TEST(ParallelLoop, RunsEveryIndexOnceAndEndsBeforeWhatFollows) {
  for (int round = 0; round < 50; ++round) {
    std::vector<int> values(1000);
    std::iota(values.begin(), values.end(), round);  // before the loop: its parts must see it
    parallel_loop(0, 1000, [&](int i) { values[i] *= 2; });
    for (int i = 0; i < 1000; ++i) ASSERT_EQ(values[i], 2 * (i + round)) << "round " << round;
  }
}

TEST(ParallelLoop, LoopsStandInEachOther) {
  std::vector<std::vector<int>> rows(20, std::vector<int>(50, 0));
  parallel_loop(
      std::size_t{0}, rows.size(),
      [&](std::size_t row) {
        parallel_loop(0, 50, [&](int i) { rows[row][i] = i; });
        rows[row].push_back(std::accumulate(rows[row].begin(), rows[row].end(), 0));
      },
      tbb::simple_partitioner());
  for (const auto& row : rows) EXPECT_EQ(row.back(), 49 * 50 / 2);
}

TEST(ParallelLoop, WhatABodyThrowsArrivesAfterTheOthersAreDone) {
  for (int round = 0; round < 20; ++round) {
    std::vector<int> values(100, 0);
    std::atomic<int> running = 0;
    EXPECT_EQ(test::error_of<std::runtime_error>([&] {
                parallel_loop(0, 100, [&](int i) {
                  ++running;
                  values[i] = i;
                  --running;
                  if (i == 50) throw std::runtime_error("fifty");
                });
              }),
              "fifty");
    EXPECT_EQ(running, 0);
    EXPECT_EQ(values[50], 50);
  }
}

// A thread sanitizer that finds nothing must be able to find something, in spite of what
// tests/thread_suppressions.txt leaves out.
TEST(ParallelLoopDeathTest, TheThreadSanitizerFindsARaceInALoop) {
#if defined(__SANITIZE_THREAD__)
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        long sum = 0;
        std::atomic<int> inside = 0;
        parallel_loop(
            0, 64,
            [&](int i) {
              // Two threads at least: the first part waits, some seconds at most, for a second one.
              inside.fetch_add(1, std::memory_order_relaxed);
              for (int wait = 0; wait < 5000 && inside.load(std::memory_order_relaxed) < 2; ++wait)
                std::this_thread::sleep_for(std::chrono::milliseconds(1));
              sum += i;
            },
            tbb::simple_partitioner());
        std::exit(sum == -1 ? 1 : 0);  // the sanitizer makes this 66
      },
      testing::ExitedWithCode(66), "data race");
#else
  GTEST_SKIP() << "needs the preset tsan";
#endif
}

/// A part of an outer loop throws while a loop inside another part is about to begin: that one may
/// not return as if all its parts had run.
TEST(ParallelLoop, ALoopInsideAnAbandonedOneSaysSo) {
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  const auto wait_for = [&](const auto& condition) {
    while (!condition() && std::chrono::steady_clock::now() < limit) std::this_thread::yield();
    return condition();
  };
  std::atomic<bool> other_runs = false, abandoned = false, said = false;
  std::atomic<int> parts = 0;
  const auto inside = [&] {
    other_runs = true;
    abandoned = wait_for([] { return tbb::is_current_task_group_canceling(); });
    try {
      parallel_loop(0, 64, [&](int) { ++parts; });
    } catch (const Cancelled&) {
      said = true;
    }
  };
  try {
    parallel_loop(
        0, 2,
        [&](int part) {
          if (part == 1) return inside();
          if (wait_for([&] { return other_runs.load(); }))
            throw std::runtime_error("a part failed");
        },
        tbb::simple_partitioner());
  } catch (const std::runtime_error&) {
  }
  if (!abandoned) GTEST_SKIP() << "the parts did not run at the same time";
  EXPECT_TRUE(said || parts == 64) << parts << " of 64 parts ran, and nobody said so";
}

}  // namespace
}  // namespace kvloupe
