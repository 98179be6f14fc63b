#pragma once

#include "analysis/policy/kit/sequence_tables.h"

namespace kvloupe {

/// How far back a query head looks, by its mean query and its mean key alone: both before RoPE,
/// over the tokens before the sequence's end, placed at `positions` positions in a row, the query
/// at the last. The softmax over the positions is summed up from the first; the mean of these sums
/// is near 1 for a head that looks far back (retrieval) and near 1/positions for one that looks at
/// the last token (DuoAttention's score as kvpress computes it without training). Throws WorkError
/// where the rotation cannot be undone.
double far_sight(const SequenceTables& tables, int layer, int query_head, int positions);

}  // namespace kvloupe
