#pragma once

#include "analysis/trace/trace.h"
#include "tests/capture/naive_model.h"

namespace kvloupe::test {

/// What a merge of a policy does to the entries it joins.
struct MergeKind {
  bool scaled = false;         // the value is times the size of the set
  bool with_log_size = false;  // log |S| is added to the entry's logits
  bool keys_too = false;       // keys are averaged like values
};

/// What the naive model does to its caches so that they follow a closed-loop trace: its merges by
/// their own formula, then its evictions. Steps after the trace's last change nothing. The trace
/// must outlive it.
NaiveCut follow(const Trace& trace, const MergeKind& kind = {});

}  // namespace kvloupe::test
