// One replay of a long trace (kvloupe_long_trace writes one), nothing measured: wall time,
// processor time and peak memory of the process. One policy a run, since the peak is the process's.
//
//   kvloupe_long_bench TRACE.h5 POLICY BUDGET [THREADS]
#include <fmt/format.h>

#include <chrono>
#include <cstdlib>
#include <exception>

#include "analysis/base/system/freed_memory.h"
#include "analysis/replay/replay.h"
#include "tests/bench/resources.h"

namespace kvloupe {
namespace {

void run(const char* path, const char* policy, const char* budget, int threads) {
  const Trace trace(path);
  ReplayRequest request{.policy = parse_policy(policy),
                        .budget = parse_budget(budget).resolve(trace.run().prompt_length),
                        .metrics = false,
                        .threads = threads};
  const long before = peak_memory();
  const auto start = std::chrono::steady_clock::now();
  const double processor = processor_seconds();
  Progress progress;
  const Replay replayed = replay(trace, request, progress);
  fmt::print(
      "{:<10} T = {}, N = {}, {} heads: {:.2f} s, {:.2f} s of processor time, the busiest thread "
      "{:.2f} s, peak {} MB (opened: {} MB)\n",
      policy, trace.length(), request.budget, replayed.heads.size(),
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(),
      processor_seconds() - processor, busiest_thread_seconds(), peak_memory(), before);
}

}  // namespace
}  // namespace kvloupe

int main(int count, char** words) {
  kvloupe::share_freed_memory();
  if (count < 4 || count > 5) {
    fmt::print(stderr, "usage: kvloupe_long_bench TRACE.h5 POLICY BUDGET [THREADS]\n");
    return 2;
  }
  try {
    kvloupe::run(words[1], words[2], words[3], count > 4 ? std::atoi(words[4]) : 0);
  } catch (const std::exception& problem) {
    fmt::print(stderr, "{}\n", problem.what());
    return 1;
  }
  return 0;
}
