// How long the window takes on a large trace (kvloupe_long_trace … own writes one): opening it,
// another budget, another step. Wall and processor time of the whole process, and its peak memory.
//
//   kvloupe_window_bench TRACE.h5 [POLICY [MEASURE [BUDGET]]]
//
// MEASURE is one of the grid's, such as perturbation_l1. The window is small and drawn 20 times a
// second, so that the software renderer leaves the processor to the replays.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <time.h>

#include <chrono>
#include <functional>
#include <string>
#include <thread>

#include "analysis/base/system/freed_memory.h"
#include "tests/app/virtual_display.h"
#include "tests/app/window_driver.h"
#include "tests/bench/resources.h"

namespace kvloupe::test {
namespace {

using Clock = std::chrono::steady_clock;
constexpr auto kFrame = std::chrono::milliseconds(50);
constexpr double kLongest = 300.0;  // seconds anything may take

class Bench {
 public:
  explicit Bench(WindowDriver& driver) : driver_(driver) {}

  void begin() {
    start_ = Clock::now();
    start_processor_ = processor_seconds();
  }
  /// Draws frames until `done`, and says when that was.
  void until(const char* what, const std::function<bool()>& done) {
    while (!done() && seconds() < kLongest) {
      driver_.frame();
      if (done()) break;
      std::this_thread::sleep_for(kFrame);
    }
    fmt::print("  {:<28} {:6.2f} s  {:6.2f} s of processor time{}\n", what, seconds(),
               processor_seconds() - start_processor_, done() ? "" : "  NOT DONE");
    std::fflush(stdout);
  }

 private:
  double seconds() const { return std::chrono::duration<double>(Clock::now() - start_).count(); }

  WindowDriver& driver_;
  Clock::time_point start_;
  double start_processor_ = 0.0;
};

int run(int count, char** words) {
  if (count < 2 || count > 5) {
    fmt::print(stderr, "usage: kvloupe_window_bench TRACE.h5 [POLICY [MEASURE [BUDGET]]]\n");
    return 2;
  }
  if (const std::string problem = need_display(); !problem.empty()) {
    fmt::print(stderr, "{}\n", problem);
    return 1;
  }
  WindowDriver driver(1000, 640);
  window::Workspace& w = driver.workspace;
  w.state = window::default_state();
  w.state.tile_count = 1;  // the film strip
  w.state.policy_a = parse_policy(count > 2 ? words[2] : "keydiff");
  w.state.grid_measure = count > 3 ? words[3] : "retained_mass";
  const int budget = count > 4 ? std::atoi(words[4]) : 1024;
  w.state.budget = parse_budget(std::to_string(budget));

  Bench bench(driver);
  const auto strip = [&] { return w.tiles[0].scene(); };
  // All heads have a number, and it is of what was asked for.
  const auto filled = [&] { return w.grid.settled(); };
  fmt::print("{}, {}, N = {}\n", w.state.policy_a.text(), w.state.grid_measure, budget);
  fmt::print("opening\n");
  bench.begin();
  w.open(words[1]);
  bench.until("film strip", [&] { return strip() != nullptr; });
  bench.until("grid", filled);
  bench.until("all at rest", [&] { return w.settled(); });

  fmt::print("another budget\n");
  auto before = strip();
  bench.begin();
  w.state.budget = parse_budget(std::to_string(budget * 3 / 4));
  driver.frame();
  bench.until("film strip", [&] { return strip() != before; });
  bench.until("grid", filled);
  bench.until("all at rest", [&] { return w.settled(); });

  fmt::print("another step\n");
  bench.begin();
  w.state.selection.step = w.shown.step() / 2;
  driver.frame();
  bench.until("grid", filled);
  bench.until("all at rest", [&] { return w.settled(); });

  fmt::print("peak memory {} MB\n", peak_memory());
  return 0;
}

}  // namespace
}  // namespace kvloupe::test

int main(int count, char** words) {
  kvloupe::share_freed_memory();
  testing::InitGoogleTest();
  return kvloupe::test::run(count, words);
}
