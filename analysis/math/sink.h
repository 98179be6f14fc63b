#pragma once

#include <span>

#include "analysis/base/core/matrix.h"
#include "analysis/base/core/progress.h"
#include "analysis/trace/trace.h"

namespace kvloupe {

/// A query head whose sink strength at token 0 is above this is a sink head.
inline constexpr float kSinkHead = 0.3F;

/// Sink strength of one token in one query head: the mean of A[q,token] over queries q > token that
/// see it, full cache. 0 for the last token, which no other query sees. Throws UsageError for a
/// token that the trace does not have.
float sink_strength(const Trace& trace, int layer, int query_head, int token, Progress& progress);

/// An estimate of the sink strength from some of the queries, whose rows are computed: the mean
/// over those of `queries` that come after the token and see it; 0 without such a query. O(queries
/// · T · d). Throws UsageError for a token or query that the trace does not have.
float sink_strength(const Trace& trace, int layer, int query_head, int token,
                    std::span<const int> queries, Progress& progress);

/// The same for every layer and query head: [L,Hq], heads in parallel. Progress counts heads.
Matrix sink_strengths(const Trace& trace, int token, Progress& progress);

/// Means over each head's query heads: [L,Hq] to [L,heads]. Throws UsageError if `heads` is not
/// positive or does not divide Hq.
Matrix mean_of_query_heads(const Matrix& values, int heads);

/// A layer and one of its heads.
struct HeadIndex {
  int layer = 0;
  int head = 0;
  bool operator==(const HeadIndex&) const = default;
};
/// Above this a head rests wholly: its attention shows only the sink.
inline constexpr float kWholeSink = 0.95F;
/// The head to show when sinks are the subject: the one with the largest mean over its query heads
/// among those at most kWholeSink (these also look elsewhere), or the largest of all if every head
/// is above. From strengths [L,Hq] and `heads` heads per layer. Throws UsageError as above, and for
/// no strengths.
HeadIndex strongest_sink(const Matrix& strengths, int heads);

/// How much a query head's outputs (before W_O) change when `token` alone is evicted: the mean over
/// the queries of ‖o′ − o‖₂ / ‖o‖₂. With the token's attention a, o′ = (o − a·v) / (1 − a), so one
/// query's error is a / (1 − a) · ‖o − v‖ / ‖o‖ = a · ‖o′ − v‖ / ‖o‖: 0 if the query does not see
/// the token, infinite if it sees no other. Throws UsageError for a token or query that the trace
/// does not have, or without queries.
double dropped_token_error(const Trace& trace, int layer, int query_head, int token,
                           std::span<const int> queries);

/// The same for every layer and query head: [L,Hq], heads in parallel. Progress counts heads.
Matrix dropped_token_errors(const Trace& trace, int token, std::span<const int> queries,
                            Progress& progress);

/// Attention among the first n tokens, averaged over query heads (StreamingLLM, figure 2, which
/// draws the logits). [n,n], row = query; NaN where a query does not see the key.
struct MeanAttention {
  Matrix logits;         // scaled
  Matrix probabilities;  // softmax of each head's row, then the mean; not the softmax of the mean
};
/// Over all query heads of the given layers. Throws UsageError for an n larger than the trace, or
/// without layers.
MeanAttention mean_attention(const Trace& trace, std::span<const int> layers, int n,
                             Progress& progress);

}  // namespace kvloupe
