#pragma once

#include <span>

#include "analysis/matrix.h"

namespace kvloupe {

/// Bounds on the angle between one key k* and the query q that follow from the attention weight w
/// of k* (KeyDiff, theorem C.1). Keys are first scaled by ‖q‖·scale, so that q has length one and
/// k·q is the logit.
struct AttentionAlignment {
  double weight = 0.0;              // w
  double cosine = 0.0;              // cos(k*, q)
  double squared_norm_limit = 0.0;  // M = max(1, max‖k_i‖²) over all scaled keys, k* included
  /// (log(n/(n+1)) − log(1−w))/(2M) − 1, n the number of other keys: theorem C.1 as printed. Never
  /// positive; its proof swaps a sign where cos(k*,q) < 0, so there it can lie above the cosine.
  double paper_bound = 0.0;
  /// (log(w/(1−w)) + log n + mean of the other k_i·q)/‖k*‖. Always at most the cosine: by Jensen
  /// Σ exp(k_i·q) >= n·exp(mean).
  double jensen_bound = 0.0;
};

/// query [d], keys [n+1,d] that it sees, `star` the row of k*. Bounds are NaN without other keys,
/// or for a zero query; the second one also for a zero k*. O(n·d), double. Throws std::out_of_range
/// for a row that does not exist.
AttentionAlignment attention_alignment(std::span<const float> query, const MatrixView& keys,
                                       double scale, Eigen::Index star);

/// The row that receives most of the query's attention; among equal rows the last. −1 without keys.
Eigen::Index strongest_key(std::span<const float> query, const MatrixView& keys);

/// How far a key k* that is close to a query q is from the mean key k̄ that is not close to q
/// (KeyDiff, theorem C.3).
struct MeanKeyAlignment {
  double alpha = 0.0;        // cos(k̄, q)
  double beta = 0.0;         // cos(k*, q)
  double measured = 0.0;     // cos(k̄, k*)
  double paper_bound = 0.0;  // 1 − (α − β)²/2, printed as 1 + αβ − α²/2 − β²/2
  /// cos(arccos α − arccos β), the spherical triangle: at least `measured`, at most `paper_bound`.
  double tight_bound = 0.0;
};

/// query [d], keys [n,d] that it sees, `star` the row of k*; k̄ is the mean of all n keys. O(n·d).
/// Throws std::out_of_range for a row that does not exist.
MeanKeyAlignment mean_key_alignment(std::span<const float> query, const MatrixView& keys,
                                    Eigen::Index star);

}  // namespace kvloupe
