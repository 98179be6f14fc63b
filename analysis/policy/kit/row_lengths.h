#pragma once

#include "analysis/matrix.h"
#include "analysis/numeric/float_rows.h"

namespace kvloupe {

/// ‖row‖₂² of a matrix of states, in double.
inline double squared_length(const MatrixView& rows, Eigen::Index row) {
  return squared_norm(rows.data() + row * rows.outerStride(),
                      static_cast<std::size_t>(rows.cols()));
}

}  // namespace kvloupe
