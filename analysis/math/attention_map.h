#pragma once

#include <span>

#include "analysis/base/core/matrix.h"
#include "analysis/base/core/progress.h"
#include "analysis/math/numeric/logit_rule.h"
#include "analysis/trace/model_info.h"

namespace kvloupe {

enum class Pooling { max, mean };
enum class AttentionUnit { probability, logit };

/// A part of the T×T attention matrix and how it is to be shown.
struct AttentionWindow {
  int query_first = 0, query_end = 0;  // rows [query_first, query_end)
  int key_first = 0, key_end = 0;      // columns [key_first, key_end)
  int height = 0, width = 0;           // pixels
  Pooling pooling = Pooling::max;      // only max keeps a sink or a needle, one column, visible
  AttentionUnit unit = AttentionUnit::probability;
  Reach seen = {};  // what a query sees (Trace::reach)
};

/// The window at reduced resolution, exact: pixel (y, x) pools the cells of rows [⌊y·R/height⌋,
/// ⌊(y+1)·R/height⌋) and the same for columns (R rows; at least one cell each, so enlarging repeats
/// cells). Only cells of keys that their query sees count: none above the diagonal or beyond the
/// sliding window. A pixel without such a cell is NaN.
///
/// queries, keys [T,d] of the whole trace; `logsumexp` [T] of each query's row
/// (attention_logsumexp), needed only for probabilities. Result [height,width], row 0 the oldest
/// query. Memory: the result and one tile. Throws std::invalid_argument for a window outside the
/// matrix, Cancelled through progress (one unit per query row).
Matrix attention_map(const MatrixView& queries, const MatrixView& keys, const LogitRule& rule,
                     std::span<const float> logsumexp, const AttentionWindow& window,
                     Progress& progress);

}  // namespace kvloupe
