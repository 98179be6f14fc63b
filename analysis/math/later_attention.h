#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "analysis/base/core/matrix.h"
#include "analysis/base/core/progress.h"
#include "analysis/math/numeric/logit_rule.h"
#include "analysis/trace/model_info.h"

namespace kvloupe {

/// The attention that some tokens receive later: for each, the mean of A[q,i] over the queries q
/// from `first_query` to the last, A the softmax over all tokens that a query sees with the full
/// cache. A query that no longer sees the token counts as 0. The result is for one query head.
///
/// queries, keys [T,d]; logsumexp [T] of the logits that each query sees (attention.h); tokens
/// ascending, all before `first_query`. Result [tokens]; NaN where no query comes later
/// (first_query = T). O((T − first_query) · tokens · d) in tiles. Checks progress.
std::vector<double> later_attention(const MatrixView& queries, const MatrixView& keys,
                                    std::span<const float> logsumexp,
                                    std::span<const std::int32_t> tokens, int first_query,
                                    const LogitRule& rule, const Reach& reach, Progress& progress);

/// A query and the token to which it gives much attention.
struct AttendedToken {
  int query = -1;  // −1: there is none
  int token = -1;
  double attention = 0.0;
};

/// The largest attention that a query of one query head gives to one token other than token 0, on
/// which heads rest; of equals the first. queries, keys [T,d]; logsumexp [T] of the logits that
/// each query sees. O(T² d). Checks progress.
AttendedToken strongest_attention(const MatrixView& queries, const MatrixView& keys,
                                  std::span<const float> logsumexp, const LogitRule& rule,
                                  const Reach& reach, Progress& progress);

}  // namespace kvloupe
