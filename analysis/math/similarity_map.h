#pragma once

#include "analysis/base/core/matrix.h"

namespace kvloupe {

/// A part of a T×T similarity matrix: rows [row_first, row_end) and columns likewise, in tokens;
/// fractions are shares of a token. `height` × `width` pixels.
struct SimilarityWindow {
  double row_first = 0.0, row_end = 0.0;
  double column_first = 0.0, column_end = 0.0;
  int height = 0, width = 0;
};

/// The cosine similarity of every two rows of a matrix, at any zoom, without the T×T matrix.
///
/// The mean cosine over a tile I×J is mean(k̂_I)·mean(k̂_J), k̂ = k/‖k‖ (0 for a zero key). Running
/// sums of k̂ give the mean over any range, with fractional ends, in O(d). So a map is exact and
/// costs O(pixels·d). Built in O(T·d); holds 8·(T + 1)·d bytes.
class SimilarityMap {
 public:
  /// rows [T,d]: keys or values of one head.
  explicit SimilarityMap(const MatrixView& rows);

  Eigen::Index length() const { return sums_.rows() - 1; }  // T

  /// Mean cosines [height,width], row 0 the window's first row. Throws std::invalid_argument for
  /// an empty window or one outside [0,T].
  Matrix map(const SimilarityWindow& window) const;

 private:
  /// Mean normalised rows of `pixels` equal parts of [first, end): [pixels,d].
  Matrix means(double first, double end, int pixels) const;

  Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor> sums_;  // [T+1,d]
};

}  // namespace kvloupe
