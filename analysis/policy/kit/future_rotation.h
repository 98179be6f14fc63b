#pragma once

#include <vector>

#include <Eigen/Core>

#include "analysis/math/rope.h"
#include "analysis/policy/kit/sequence_tables.h"

namespace kvloupe {

/// The mean rotation of RoPE over the positions from `first` on, `count` of them: what becomes, on
/// average, of a query that is asked there. A pair (x, y) is multiplied, as x + iy, by the mean of
/// exp(i p ω); coordinates that RoPE does not rotate stay.
class FutureRotation {
 public:
  FutureRotation(const Rope& rope, int first, int count);

  Eigen::VectorXd of(const Eigen::VectorXd& query) const;
  /// R̄ Σ R̄ᵀ of a covariance [d,d].
  Eigen::MatrixXd of(const Eigen::MatrixXd& covariance) const;

 private:
  struct Turn {
    Rope::Pair pair;
    double real, imaginary;
  };
  std::vector<Turn> turns_;
};

/// How far back a query head looks, by its mean query and its mean key alone: both before RoPE,
/// over the tokens before the sequence's end, placed at `positions` positions in a row, the query
/// at the last. The softmax over the positions is summed up from the first; the mean of these sums
/// is near 1 for a head that looks far back (retrieval) and near 1/positions for one that looks at
/// the last token (DuoAttention's score as kvpress computes it without training). Throws WorkError
/// where the rotation cannot be undone.
double far_sight(const SequenceTables& tables, int layer, int query_head, int positions);

}  // namespace kvloupe
