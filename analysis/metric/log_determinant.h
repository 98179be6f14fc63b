#pragma once

#include "analysis/matrix.h"

namespace kvloupe {

/// The volume that a set of key rows spans.
struct LogDeterminant {
  double value = 0.0;  // Σ log λ over the eigenvalues λ of KᵀK that count; 0 without any
  int rank = 0;        // how many count
};

/// Log pseudo-determinant of the Gram matrix of n key rows, keys [n,d] (KeyDiff, figure 5). KKᵀ is
/// singular where n > d, so the eigenvalues of KᵀK with λ > max(n,d)·ε·λ_max are taken, ε the
/// double epsilon; KᵀK and KKᵀ share them, and the smaller of the two is decomposed, in double.
/// n = 0 or all-zero keys: value 0, rank 0.
LogDeterminant log_pseudo_determinant(const MatrixView& keys);

}  // namespace kvloupe
