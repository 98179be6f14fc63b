// The requests of the window on a large trace (kvloupe_long_trace … own writes one), without a
// window: the selected layer after another budget, all layers and the grid's measure at one step,
// the grid at another step; and all measures at all steps, for comparison. Wall time, processor
// time of the process and its peak memory.
//
//   kvloupe_step_bench TRACE.h5 [POLICY [MEASURE [BUDGET [all]]]]
#include <fmt/format.h>
#include <time.h>

#include <chrono>
#include <cstdlib>
#include <exception>
#include <functional>
#include <string>

#include "analysis/base/system/freed_memory.h"
#include "analysis/replay/measure/measure_catalog.h"
#include "analysis/replay/measure_replay.h"
#include "analysis/replay/record/layer_states.h"
#include "analysis/replay/replay.h"
#include "tests/bench/resources.h"

namespace kvloupe {
namespace {

constexpr std::size_t kStatesBytes = std::size_t{256} << 20U;  // as the window has it

void timed(const char* what, const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  const double processor = processor_seconds();
  work();
  fmt::print("  {:<36} {:7.2f} s {:7.2f} s of processor time, peak {} MB\n", what,
             std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(),
             processor_seconds() - processor, peak_memory());
  std::fflush(stdout);
}

void run(const std::string& path, const std::string& policy, const std::string& measure, int budget,
         bool all) {
  fmt::print("{}, {}, N = {}\n", policy, measure, budget);
  const Trace trace(path);
  LayerStatesCache focus_states(kStatesBytes), all_states(kStatesBytes),
      measured_states(kStatesBytes);
  Progress progress;
  ReplayRequest request{.policy = parse_policy(policy), .budget = budget, .metrics = false};
  ReplayRequest focus = request;
  focus.layers = {trace.model().num_layers / 2};
  focus.scores_layer = focus.layers.front();
  focus.scores_head = 0;
  focus.states = &focus_states;
  timed("a layer, for the first time", [&] { replay(trace, focus, progress); });
  focus.budget = request.budget = budget * 3 / 4;
  timed("the same layer, another budget", [&] { replay(trace, focus, progress); });

  Replay decided;
  request.states = &all_states;
  timed("all layers", [&] { decided = replay(trace, request, progress); });
  MeasureRequest grid{.measures = {measure}, .states = &measured_states};
  const int last = static_cast<int>(decided.blocks.size()) - 1;
  grid.steps = {last};
  timed("the grid of the last step", [&] { measure_replay(trace, decided, grid, progress); });
  grid.steps = {last / 2};
  timed("the grid of another step", [&] { measure_replay(trace, decided, grid, progress); });
  if (!all) return;
  request.metrics = true;
  timed("all layers, all measures, all steps", [&] { replay(trace, request, progress); });
}

}  // namespace
}  // namespace kvloupe

int main(int count, char** words) {
  kvloupe::share_freed_memory();
  if (count < 2 || count > 6) {
    fmt::print(stderr, "usage: kvloupe_step_bench TRACE.h5 [POLICY [MEASURE [BUDGET [all]]]]\n");
    return 2;
  }
  try {
    kvloupe::run(words[1], count > 2 ? words[2] : "keydiff",
                 count > 3 ? words[3] : "perturbation_l1", count > 4 ? std::atoi(words[4]) : 1024,
                 count > 5);
  } catch (const std::exception& problem) {
    fmt::print(stderr, "{}\n", problem.what());
    return 1;
  }
  return 0;
}
