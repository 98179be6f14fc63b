#pragma once

#include <vector>

#include "analysis/base/core/progress.h"
#include "analysis/policy/kit/spec.h"
#include "analysis/trace/trace.h"

namespace kvloupe {

class LayerStatesCache;  // record/layer_states.h

/// The question: the first `prefix` tokens are read with the full cache, then a policy acts once.
/// Which share of the attention that later queries pay to these tokens goes to the evicted ones?
struct AttentionLostRequest {
  std::vector<PolicySpec> policies;
  std::vector<int> budgets;  // entries per head
  int prefix = 0;            // tokens, 1 to T − 1
  int sinks = 0;             // so many first tokens count neither as entries nor as attention
  std::vector<int> layers;   // ascending; empty: all
  int query_head = -1;       // whose attention counts; −1: the mean over a head's query heads
  LayerStatesCache* states = nullptr;  // states already read are taken from here
};

/// The answer for one head. Later attention of token i: the mean of A[q,i] over all queries q ≥
/// prefix, with the full cache (Devoto et al. 2025, notebook of the expected-attention press).
struct AttentionLost {
  /// A policy at a budget.
  struct Point {
    int evicted = 0;    // of the entries
    double lost = 0.0;  // their part of the later attention of all entries, 0 to 1
  };
  int layer = 0, head = 0;
  int entries = 0;  // those that later queries see, without the sinks
  /// By how many are evicted, [entries + 1]: those with the least later attention. No choice of as
  /// many loses less; a random one loses the share of the entries, on average.
  std::vector<double> least;
  std::vector<std::vector<Point>> points;  // [policies][budgets]
};

/// Layer-major, the heads of the layers asked for. The lost share is NaN where no later query pays
/// any attention to the entries. Layers in parallel; progress counts layers and is checked. Throws
/// UsageError for a prefix or budget out of range and what the policies refuse.
std::vector<AttentionLost> attention_lost(const Trace& trace, const AttentionLostRequest& request,
                                          Progress& progress);

}  // namespace kvloupe
