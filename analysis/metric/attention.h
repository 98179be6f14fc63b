#pragma once

#include <span>
#include <vector>

#include "analysis/matrix.h"
#include "analysis/progress.h"
#include "analysis/trace/trace.h"

namespace kvloupe {

/// Attention recomputed in float32 from the states, never from a stored 16-bit matrix.
///
/// Everywhere below: queries [m,d] are those of the last m of the n entries whose keys [n,d] are
/// given, so that query r sees entries up to n − m + r (causal): all of them, or the last `window`
/// where that is not 0 (Trace::window). Logits are q·k·scale (+ log_sizes [n], where not empty:
/// merged entries).

/// Softmax rows [m,n]: row = query, oldest first; what a query does not see is exactly 0.
Matrix attention_rows(const MatrixView& queries, const MatrixView& keys, float scale, int window,
                      std::span<const float> log_sizes = {});

/// Logits of one query [d] against all n keys, no mask: [n].
std::vector<float> attention_logits(std::span<const float> query, const MatrixView& keys,
                                    float scale);

/// Log-sum-exp of each row's visible logits: [m]. Holds one tile of logits at a time.
std::vector<float> attention_logsumexp(const MatrixView& queries, const MatrixView& keys,
                                       float scale, int window, Progress& progress);

/// The same for all T queries of a trace's query head: as stored where the trace has it and a few
/// recomputed rows agree, else computed.
std::vector<float> attention_logsumexp(const Trace& trace, int layer, int query_head,
                                       Progress& progress);

/// What each key receives: Σ over the m queries of its attention, [n].
std::vector<float> attention_column_sums(const MatrixView& queries, const MatrixView& keys,
                                         float scale, int window, Progress& progress);

/// Attention each of T tokens receives on average from the tokens that see it, itself among them:
/// the column sum divided by T − i, or by the window where that is less. queries, keys [T,d].
std::vector<float> received_attention(const MatrixView& queries, const MatrixView& keys,
                                      float scale, int window, Progress& progress);

}  // namespace kvloupe
