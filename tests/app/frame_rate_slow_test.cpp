// The cost of a dragged budget at 4096 tokens: the window's own work per frame, and how soon the
// picture follows. Prints its numbers; docs/performance.md quotes them.

#include <time.h>

#include "app/session/view_catalog.h"
#include "tests/app/window_test.h"
#include "tests/support/peak_memory.h"
#include "tests/support/test.h"

namespace kvloupe::test {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_of(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

/// Processor time, so that other work on the machine does not count. Milliseconds per frame.
struct FrameCost {
  double window_thread = 0.0;  // median
  double process = 0.0;        // mean, replays and the software renderer included
};

FrameCost measure(int frames, const std::function<void(int)>& frame) {
  std::vector<double> own;
  const double process = seconds_of(CLOCK_PROCESS_CPUTIME_ID);
  for (int i = 0; i < frames; ++i) {
    const double start = seconds_of(CLOCK_THREAD_CPUTIME_ID);
    frame(i);
    own.push_back(seconds_of(CLOCK_THREAD_CPUTIME_ID) - start);
  }
  std::sort(own.begin(), own.end());
  return {1e3 * own[own.size() / 2],
          1e3 * (seconds_of(CLOCK_PROCESS_CPUTIME_ID) - process) / frames};
}

struct DraggedBudget : WindowTest {
  void prepare() override {
    write_synthetic_trace(folder_.path() / "long.h5", {.layers = 4,
                                                       .query_heads = 8,
                                                       .heads = 4,
                                                       .head_dim = 32,
                                                       .prompt_length = 4096,
                                                       .generated = 0,
                                                       .block = 128,
                                                       .value_out_norms = false});
  }
  /// Film strip first, in one tile or beside others.
  void open(WindowDriver& driver, const std::string& policy, int tiles = 1) {
    driver.workspace.state = window::default_state();
    driver.workspace.state.tile_count = tiles;
    driver.workspace.state.policy_a = parse_policy(policy);
    driver.workspace.open((folder_.path() / "long.h5").string());
    driver.settle();
    ASSERT_NE(driver.workspace.results.trace(), nullptr) << driver.workspace.notice;
  }
  static void set_budget(WindowDriver& driver, int i) {
    driver.workspace.state.budget = parse_budget(std::to_string(256 + 8 * (i % 256)));
  }
};

TEST_F(DraggedBudget, CostsTheWindowLessThanAThirtiethOfASecond) {
  WindowDriver driver(1600, 1000);
  open(driver, "keydiff", 2);
  if (HasFatalFailure()) return;
  const FrameCost empty = measure(30, [&](int) {
    driver.surface.begin_frame();
    driver.surface.end_frame();
  });
  const FrameCost still = measure(30, [&](int) { driver.frame(); });
  const FrameCost dragged = measure(60, [&](int i) {  // every frame asks for another budget
    set_budget(driver, i);
    driver.frame();
  });
  const auto print = [](const char* what, const FrameCost& cost) {
    std::printf("%-8s window's thread %.2f ms, whole process %.1f ms a frame\n", what,
                cost.window_thread, cost.process);
  };
  print("empty", empty);
  print("still", still);
  print("dragged", dragged);
  EXPECT_LT(dragged.window_thread, 1e3 / 30);
  EXPECT_LT(dragged.window_thread - empty.window_thread,
            3 * (still.window_thread - empty.window_thread) + 2.0)
      << "a drag does its work elsewhere";
  driver.settle();
  EXPECT_EQ(driver.workspace.shown.replay(0)->budget, 256 + 8 * 59);
}

TEST_F(DraggedBudget, IsFollowedByTheFilmStripAndEndsWithTheLast) {
  for (const char* policy : {"keydiff", "h2o"}) {
    WindowDriver driver(1600, 1000);
    open(driver, policy);
    if (HasFatalFailure()) return;
    const auto strip = [&] { return driver.workspace.tiles[0].scene(); };
    const auto start = Clock::now();
    const auto seconds = [&](Clock::time_point since) {
      return std::chrono::duration<double>(Clock::now() - since).count();
    };
    auto shown = strip();
    double first = 0.0;
    int pictures = 0;
    int i = 1;
    for (; seconds(start) < 5.0 || (pictures == 0 && seconds(start) < 60.0); ++i) {
      set_budget(driver, i);
      driver.frame();
      EXPECT_FALSE(driver.workspace.settled());
      if (strip() == shown) continue;
      shown = strip();
      if (++pictures == 1) first = seconds(start);
    }
    EXPECT_GT(pictures, 0) << policy << ": nothing is shown before the hand rests";
    const auto rest = Clock::now();
    while (!driver.workspace.tiles[0].settled() && seconds(rest) < 60.0) driver.frame();
    std::printf(
        "%s: first new film strip after %.2f s, then one every %.2f s; %.2f s after the hand "
        "rests\n",
        policy, first, (seconds(start) - seconds(rest)) / std::max(1, pictures), seconds(rest));
    driver.settle();
    EXPECT_EQ(driver.workspace.shown.replay(0)->budget, 256 + 8 * ((i - 1) % 256));
  }
}

// A trace of 32 768 tokens in the window: the first picture of a head, panning, memory. Prints its
// numbers; docs/performance.md quotes them.

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

constexpr int kTokens = 32768;

struct LongTrace : WindowTest {
  void prepare() override {
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
  const double process = seconds_of(CLOCK_PROCESS_CPUTIME_ID);
  const auto start = Clock::now();
  for (int i = 0; i < kFrames; ++i) {
    tile.x_range = tile.y_range = {{i * kStep, i * kStep + kShown}};
    const double thread = seconds_of(CLOCK_THREAD_CPUTIME_ID);
    const auto frame = Clock::now();
    driver.frame();
    own.push_back(seconds_of(CLOCK_THREAD_CPUTIME_ID) - thread);
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
      1e3 * (seconds_of(CLOCK_PROCESS_CPUTIME_ID) - process) / kFrames, 1e3 * whole.back());
  std::printf("memory     %.0f MB at most\n", peak_memory_mb());
  EXPECT_GT(pictures, 0) << "the map stands still while it is panned";
  EXPECT_LT(own[own.size() / 2], 1.0 / 30.0) << "processor time, so that other work does not count";
  EXPECT_LT(peak_memory_mb(), 1024.0);
}

}  // namespace
}  // namespace kvloupe::test
