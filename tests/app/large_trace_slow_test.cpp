// A trace of 32 layers of Llama-3-8B's shape at 32 768 tokens in the window: what it shows, and
// its memory. Prints its numbers; docs/performance.md has those of the benchmark.

#include "tests/app/window_test.h"
#include "tests/support/long_trace.h"
#include "tests/support/peak_memory.h"
#include "tests/support/test.h"

namespace kvloupe::test {
namespace {

using Clock = std::chrono::steady_clock;
constexpr double kLongest = 400.0;  // seconds; a busy machine gives a window little of itself

struct LargeTrace : WindowTest {
  void prepare() override {
    const pid_t child = fork();  // so that the states it makes up are not the window's memory
    if (child == 0) {
      LongTraceOptions options{.layers = 32};
      write_long_trace(folder_ / "large.h5", options);
      _exit(0);
    }
    int status = -1;
    waitpid(child, &status, 0);
    ASSERT_EQ(status, 0);
  }
  /// Draws until `done`, for at most so many seconds.
  template <typename Done>
  static double until(WindowDriver& driver, double longest, const Done& done) {
    const auto start = Clock::now();
    const auto seconds = [&] {
      return std::chrono::duration<double>(Clock::now() - start).count();
    };
    while (!done() && seconds() < longest) {
      driver.frame();
      usleep(100000);  // pictures are drawn by the processor, which the jobs need
    }
    return seconds();
  }
};

TEST_F(LargeTrace, ShowsMapFilmStripAndKeysWithinTwoGigabytes) {
  WindowDriver driver(1280, 800);
  window::Workspace& w = driver.workspace;
  w.state = window::default_state();
  const std::vector<std::string> views = {"similarity", "filmstrip", "pca"};
  for (std::size_t i = 0; i < views.size(); ++i) w.state.tiles[i] = {.view = views[i]};
  w.state.tile_count = static_cast<int>(views.size());
  w.state.policy_a = parse_policy("keydiff");
  w.open((folder_ / "large.h5").string());
  const auto all_shown = [&] {
    for (std::size_t i = 0; i < views.size(); ++i) {
      if (w.tiles[i].scene() == nullptr) return false;
    }
    return true;
  };
  const double shown = until(driver, kLongest, all_shown);
  for (std::size_t i = 0; i < views.size(); ++i) {
    ASSERT_NE(w.tiles[i].scene(), nullptr) << views[i] << ": " << w.tiles[i].error();
  }
  std::printf("map, film strip and keys after %.1f s, %.0f MB at most\n", shown, peak_memory_mb());

  // Another layer, head and budget while the grid of all layers is under way.
  w.state.selection.layer = 20;
  w.state.selection.head = 5;
  w.state.budget = parse_budget("10%");
  const auto before = w.tiles[1].scene();
  until(driver, kLongest, [&] { return w.tiles[1].scene() != before; });
  w.state.policy_a = parse_policy("tova");  // reads 5 times as much
  const auto strip = w.tiles[1].scene();
  const double tova = until(driver, kLongest, [&] { return w.tiles[1].scene() != strip; });
  EXPECT_NE(w.tiles[1].scene(), strip);
  std::printf("tova's film strip after %.1f s, %.0f MB at most\n", tova, peak_memory_mb());
  // Seen: 1 220 to 1 550 MB, by how the jobs of the two policies meet.
  EXPECT_LT(peak_memory_mb(), 2e9 / (1024.0 * 1024.0));
}

}  // namespace
}  // namespace kvloupe::test
