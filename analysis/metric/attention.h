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
/// given, so that query r sees entries 0 to n − m + r (causal). Logits are q·k·scale (+ log_sizes
/// [n], where not empty: merged entries).

/// Throws FileError where a query of the trace saw only a window of the tokens before it: nothing
/// below knows windows, and its numbers would be those of another model. A trace no longer than its
/// model's window passes.
void require_no_window(const Trace& trace);

/// Softmax rows [m,n]: row = query, oldest first; what a query does not see is exactly 0.
Matrix attention_rows(const MatrixView& queries, const MatrixView& keys, float scale,
                      std::span<const float> log_sizes = {});

/// Logits of one query [d] against all n keys, no mask: [n].
std::vector<float> attention_logits(std::span<const float> query, const MatrixView& keys,
                                    float scale);

/// Log-sum-exp of each row's visible logits: [m]. Holds one tile of logits at a time.
std::vector<float> attention_logsumexp(const MatrixView& queries, const MatrixView& keys,
                                       float scale, Progress& progress);

/// The same for all T queries of a trace's query head: as stored where the trace has it and a few
/// recomputed rows agree, else computed. Throws as require_no_window().
std::vector<float> attention_logsumexp(const Trace& trace, int layer, int query_head,
                                       Progress& progress);

/// What each key receives: Σ over the m queries of its attention, [n].
std::vector<float> attention_column_sums(const MatrixView& queries, const MatrixView& keys,
                                         float scale, Progress& progress);

/// Attention each of T tokens receives on average from the tokens that see it: the column sum
/// divided by T − i. queries, keys [T,d].
std::vector<float> received_attention(const MatrixView& queries, const MatrixView& keys,
                                      float scale, Progress& progress);

}  // namespace kvloupe
