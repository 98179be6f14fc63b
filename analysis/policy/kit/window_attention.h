#pragma once

#include <Eigen/Core>

#include "analysis/policy/kit/sequence_tables.h"

namespace kvloupe {

/// Softmax rows of the last `window` queries (or all) before `end` with the full cache, causal and
/// within the layer's own window: [W,end], row = query, oldest first.
Eigen::MatrixXd window_attention(const Trace& trace, int layer, int query_head, int window,
                                 int end);

}  // namespace kvloupe
