#pragma once

#include <span>

#include "analysis/matrix.h"
#include "analysis/numeric/logit_rule.h"
#include "analysis/progress.h"
#include "analysis/trace/model_info.h"

namespace kvloupe {

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
