#pragma once

#include <Eigen/Core>

namespace kvloupe {

/// Row-major float matrix: one row per token, as the trace stores it.
using Matrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
/// A borrowed row-major matrix; rows may be further apart than their length.
using MatrixView = Eigen::Map<const Matrix, 0, Eigen::OuterStride<>>;

inline MatrixView view(const Matrix& m) {
  return MatrixView(m.data(), m.rows(), m.cols(), Eigen::OuterStride<>(m.outerStride()));
}
/// Rows [first, first + count) of m, not copied.
inline MatrixView rows(const MatrixView& m, Eigen::Index first, Eigen::Index count) {
  return MatrixView(m.data() + first * m.outerStride(), count, m.cols(),
                    Eigen::OuterStride<>(m.outerStride()));
}

}  // namespace kvloupe
