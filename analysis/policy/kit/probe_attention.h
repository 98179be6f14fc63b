#pragma once

#include <Eigen/Core>
#include <functional>
#include <span>

#include "analysis/policy/kit/probe_tables.h"
#include "analysis/policy/kit/sequence_tables.h"

namespace kvloupe {

/// Softmax rows of the last `window` queries (or all) before `end` with the full cache, causal and
/// within the layer's own window: [W,end], row = query, oldest first.
Eigen::MatrixXd window_attention(const Trace& trace, int layer, int query_head, int window,
                                 int end);

/// Which entries of the context take part in a softmax row of the probe: the first `sinks` tokens,
/// then [first, end).
struct ProbeColumns {
  int sinks = 0;  // at most first
  int first = 0;
  int end = 0;
};

/// Softmax rows of the queries [from, pass.tokens.end) of a pass over the columns and the pass's
/// own keys up to each query, within the layer's window. Calls body(query, row) with the attention
/// to the columns [first, end): [end - first], 0 for tokens that the query does not see. Throws
/// Cancelled.
void probe_rows(const ProbeInfo& probe, const LayerProbe& states, const ProbePass& pass,
                int query_head, const ProbeColumns& columns, int from, const Progress& progress,
                const std::function<void(int query, std::span<const float> row)>& body);

}  // namespace kvloupe
