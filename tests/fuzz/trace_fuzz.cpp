// A trace: everything in it is read, and a policy is replayed on it; with a probe, one that reads
// it.

#include <algorithm>

#include "analysis/replay/replay.h"
#include "analysis/trace/trace_probe.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/support/walked_trace.h"

KVLOUPE_FUZZ_TARGET(trace) {
  using namespace kvloupe;
  const std::filesystem::path path = fuzz::as_file(input, "trace.h5");
  if (test::walk_in_child(path) == test::Walked::crashed) return;
  const Trace trace(path);
  test::read_everything(trace);
  const TraceProbe probe(trace);
  if (trace.run().closed_loop()) return;
  ReplayRequest request{
      .policy = parse_policy(probe.info() ? "kvzip(plus=1)+global" : "h2o+recent(25%)"),
      .budget = std::max(1, trace.run().prompt_length / 2),
      .threads = 1};
  Progress progress;
  replay(trace, request, progress);
}
