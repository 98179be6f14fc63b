#pragma once

#include "analysis/base/core/matrix.h"
#include "analysis/trace/model_info.h"

namespace kvloupe {

/// The two directions in which a head's keys vary most (KeyDiff, figures 4 and 7–9).
struct PrincipalComponents {
  Eigen::RowVectorXf mean;              // [d]
  Matrix basis;                         // [2,d], orthonormal rows (second row 0 if d = 1)
  Eigen::Vector2d explained{0.0, 0.0};  // share of the total variance of each, 0 to 1
  /// Coordinates [n,2] of rows [n,d].
  Matrix project(const MatrixView& rows) const;
};

/// Fits the basis to all keys [T,d] of a head, once, never per step: from the d×d covariance, in
/// double. The largest coordinate of each direction is positive, so the picture does not flip
/// between runs.
PrincipalComponents fit_principal_components(const MatrixView& keys);

/// Keys [n,d] before RoPE: undoes the rotation of row i at position first_position + i by
/// position·θ^(−2j/d) for pair j. Throws WorkError if the model has no rope_theta, or a scaling or
/// a partial rotation that kvloupe cannot undo; the message names it.
Matrix undo_rope(const MatrixView& keys, const ModelInfo& model, int first_position = 0);

}  // namespace kvloupe
