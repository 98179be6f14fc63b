#pragma once

#include <span>

#include "analysis/matrix.h"
#include "analysis/progress.h"
#include "analysis/trace/trace.h"

namespace kvloupe {

/// A query head whose sink strength at token 0 is above this is a sink head.
inline constexpr float kSinkHead = 0.3F;

/// Sink strength of one token in one query head: the mean of A[q,token] over queries q > token that
/// see it, full cache. 0 for the last token, which nobody else sees. Throws UsageError for a token
/// the trace lacks.
float sink_strength(const Trace& trace, int layer, int query_head, int token, Progress& progress);

/// An estimate of it from some of the queries, their rows computed: the mean over those of `queries`
/// that come later than the token and see it; 0 where there is none. O(queries · T · d). Throws
/// UsageError for a token or query the trace lacks.
float sink_strength(const Trace& trace, int layer, int query_head, int token,
                    std::span<const int> queries, Progress& progress);

/// The same for every layer and query head: [L,Hq], heads in parallel. Progress counts heads.
Matrix sink_strengths(const Trace& trace, int token, Progress& progress);

/// Means over each head's query heads: [L,Hq] to [L,heads]. Throws UsageError where `heads` is not
/// positive or does not divide Hq.
Matrix mean_of_query_heads(const Matrix& values, int heads);

/// A layer and one of its heads.
struct HeadIndex {
  int layer = 0;
  int head = 0;
  bool operator==(const HeadIndex&) const = default;
};
/// A head above this rests wholly: its attention shows nothing but the sink.
inline constexpr float kWholeSink = 0.95F;
/// The head to look at where sinks are the subject: the one whose mean over its query heads is
/// largest among those at most kWholeSink, which look elsewhere now and then; where there is none,
/// the largest. Of strengths [L,Hq] and `heads` heads a layer. Throws UsageError as above and for
/// no strengths.
HeadIndex strongest_sink(const Matrix& strengths, int heads);

/// What a query head's outputs (before W_O) lose when `token` alone is evicted: the mean over the
/// queries of ‖o′ − o‖₂ / ‖o‖₂. With the token's attention a, o′ = (o − a·v) / (1 − a), so one
/// query's error is a / (1 − a) · ‖o − v‖ / ‖o‖ = a · ‖o′ − v‖ / ‖o‖: 0 where it does not see the
/// token, infinite where it sees nothing else. Throws UsageError for a token or query the trace
/// lacks, or no query.
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
/// Over all query heads of the layers named. Throws UsageError for an n the trace lacks or no
/// layer.
MeanAttention mean_attention(const Trace& trace, std::span<const int> layers, int n,
                             Progress& progress);

}  // namespace kvloupe
