#pragma once

#include <span>
#include <vector>

#include "analysis/base/core/matrix.h"
#include "analysis/base/core/progress.h"
#include "analysis/math/numeric/logit_rule.h"
#include "analysis/trace/trace.h"

namespace kvloupe {

/// Attention recomputed in float32 from the states, never from a stored 16-bit matrix.
///
/// In all functions: queries [m,d] are the queries of the last m of the n entries with keys [n,d].
/// Query r sees entries up to n − m + r (causal) that lie within its reach (Trace::reach). Logits
/// follow the rule, which is a scale for most models (+ log_sizes [n], if not empty: merged
/// entries). A sink logit shares in every row: its attention then sums to less than 1.

/// Softmax rows [m,n]: row = query, oldest first; exactly 0 for entries that the query does not
/// see.
Matrix attention_rows(const MatrixView& queries, const MatrixView& keys, const LogitRule& rule,
                      const Reach& reach, std::span<const float> log_sizes = {});

/// Logits of one query [d] against all n keys, no mask: [n].
std::vector<float> attention_logits(std::span<const float> query, const MatrixView& keys,
                                    const LogitRule& rule);

/// Log-sum-exp of each row's visible logits and the sink logit: [m]. Holds one tile of logits at a
/// time.
std::vector<float> attention_logsumexp(const MatrixView& queries, const MatrixView& keys,
                                       const LogitRule& rule, const Reach& reach,
                                       Progress& progress);

/// The same for all T queries of a trace's query head: the stored values if the trace has them and
/// a few recomputed rows agree, else computed.
std::vector<float> attention_logsumexp(const Trace& trace, int layer, int query_head,
                                       Progress& progress);

/// The values that a trace has stored, if a few recomputed rows agree with them; else computed.
std::vector<float> trusted_logsumexp(std::vector<float> stored, const MatrixView& queries,
                                     const MatrixView& keys, const LogitRule& rule,
                                     const Reach& reach, Progress& progress);

/// Entropy of each query's attention, in nats: [m]. 0 if one entry has all of it, log n if n
/// entries share it evenly. A sink logit counts as one more entry.
std::vector<double> attention_entropy(const MatrixView& queries, const MatrixView& keys,
                                      const LogitRule& rule, const Reach& reach,
                                      Progress& progress);

/// The attention that each key receives: Σ over the m queries, [n].
std::vector<float> attention_column_sums(const MatrixView& queries, const MatrixView& keys,
                                         const LogitRule& rule, const Reach& reach,
                                         Progress& progress);

/// Mean attention that each of T tokens receives from the tokens that see it, including itself: the
/// column sum divided by how many these are. queries, keys [T,d].
std::vector<float> received_attention(const MatrixView& queries, const MatrixView& keys,
                                      const LogitRule& rule, const Reach& reach,
                                      Progress& progress);

}  // namespace kvloupe
