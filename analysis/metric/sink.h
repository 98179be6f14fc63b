#pragma once

#include "analysis/matrix.h"
#include "analysis/progress.h"
#include "analysis/trace/trace.h"

namespace kvloupe {

/// A query head whose sink strength at token 0 is above this is a sink head.
inline constexpr float kSinkHead = 0.3F;

/// Sink strength of one token in one query head: the mean of A[q,token] over queries q > token,
/// full cache. 0 for the last token, which nobody else sees. Throws UsageError for a token the
/// trace lacks.
float sink_strength(const Trace& trace, int layer, int query_head, int token, Progress& progress);

/// The same for every layer and query head: [L,Hq], heads in parallel. Progress counts heads.
Matrix sink_strengths(const Trace& trace, int token, Progress& progress);

}  // namespace kvloupe
