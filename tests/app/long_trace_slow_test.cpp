// A trace of 32 768 tokens in the window: the first picture of a head, panning, memory. Prints its
// numbers; docs/performance.md quotes them.

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <vector>

#include "tests/app/virtual_display.h"
#include "tests/app/window_driver.h"
#include "tests/support/peak_memory.h"
#include "tests/support/synthetic_trace.h"
#include "tests/support/temporary_folder.h"

namespace kvloupe::test {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

double processor_seconds(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

constexpr int kTokens = 32768;

class LongTrace : public testing::Test {
 protected:
  void SetUp() override {
    if (const std::string problem = need_display(); !problem.empty()) GTEST_SKIP() << problem;
    // In a process of its own, so that the states it makes up do not count as the window's memory.
    const pid_t child = fork();
    if (child == 0) {
      SyntheticTraceOptions options{.layers = 1,
                                    .query_heads = 2,
                                    .heads = 1,
                                    .head_dim = 128,
                                    .hidden_size = 64,
                                    .prompt_length = kTokens,
                                    .generated = 0,
                                    .block = 512,
                                    .clusters = 40};
      options.logsumexp = false;  // of T² products each
      write_synthetic_trace(path(), options);
      _exit(0);
    }
    int status = -1;
    waitpid(child, &status, 0);
    ASSERT_EQ(status, 0);
  }
  std::string path() const { return (folder_.path() / "long.h5").string(); }

  /// Opens the trace with this view alone; seconds until its first picture.
  double first_picture(WindowDriver& driver, const char* view) {
    driver.workspace.state.tiles[0] = window::TileState{.view = view};
    driver.workspace.state.tile_count = 1;
    driver.workspace.state.policy_a = parse_policy("keydiff");
    const auto start = Clock::now();
    driver.workspace.open(path());
    while (driver.workspace.tiles[0].scene() == nullptr && seconds_since(start) < 60.0)
      driver.frame();
    const double seconds = seconds_since(start);
    EXPECT_NE(driver.workspace.tiles[0].scene(), nullptr)
        << view << ": " << driver.workspace.tiles[0].error();
    return seconds;
  }
  TemporaryFolder folder_;
};

TEST_F(LongTrace, IsShownPannedAndHeldInMemory) {
  for (const char* view : {"similarity", "filmstrip", "pca", "norms"}) {
    WindowDriver driver(1600, 1000);
    std::printf("%-10s first picture after %.0f ms\n", view, 1e3 * first_picture(driver, view));
  }

  WindowDriver driver(1600, 1000);
  first_picture(driver, "similarity");
  window::TileState& tile = driver.workspace.state.tiles[0];
  constexpr int kFrames = 90;
  constexpr double kShown = 8192.0, kStep = 64.0;
  std::vector<double> own, whole;
  int pictures = 0;
  auto shown = driver.workspace.tiles[0].scene();
  const double process = processor_seconds(CLOCK_PROCESS_CPUTIME_ID);
  const auto start = Clock::now();
  for (int i = 0; i < kFrames; ++i) {
    tile.x_range = tile.y_range = {{i * kStep, i * kStep + kShown}};
    const double thread = processor_seconds(CLOCK_THREAD_CPUTIME_ID);
    const auto frame = Clock::now();
    driver.frame();
    own.push_back(processor_seconds(CLOCK_THREAD_CPUTIME_ID) - thread);
    whole.push_back(seconds_since(frame));
    if (driver.workspace.tiles[0].scene() != shown) ++pictures;
    shown = driver.workspace.tiles[0].scene();
  }
  const double seconds = seconds_since(start);
  std::sort(own.begin(), own.end());
  std::sort(whole.begin(), whole.end());
  std::printf(
      "panning    %.0f frames a second, %d new maps in %d frames; window's thread %.1f ms, whole "
      "process %.1f ms of processor a frame; slowest frame %.0f ms\n",
      kFrames / seconds, pictures, kFrames, 1e3 * own[own.size() / 2],
      1e3 * (processor_seconds(CLOCK_PROCESS_CPUTIME_ID) - process) / kFrames, 1e3 * whole.back());
  std::printf("memory     %.0f MB at most\n", peak_memory_mb());
  EXPECT_GT(pictures, 0) << "the map stands still while it is panned";
  EXPECT_LT(own[own.size() / 2], 1.0 / 30.0) << "processor time, so that other work does not count";
  EXPECT_LT(peak_memory_mb(), 1024.0);
}

}  // namespace
}  // namespace kvloupe::test
