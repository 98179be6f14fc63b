#pragma once

#include "analysis/trace/trace.h"
#include "tests/capture/naive_model.h"

namespace kvloupe::test {

/// The effect of a policy's merge on the entries that it joins.
struct MergeKind {
  bool scaled = false;         // the value is times the size of the set
  bool with_log_size = false;  // log |S| is added to the entry's logits
  bool keys_too = false;       // keys are averaged like values
};

/// Makes the naive model's caches follow a closed-loop trace: its merges by their own formula, then
/// its evictions, then what its quant says, in double, from the states as the trace has them (so
/// that no number near the middle of two levels goes to the other one). Steps after the trace's
/// last do not change them. The trace must outlive it.
NaiveCut follow(const Trace& trace, const MergeKind& kind = {});

}  // namespace kvloupe::test
