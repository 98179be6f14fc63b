#include "analysis/trace/output_norms.h"

#include <algorithm>

namespace kvloupe {

std::vector<float> output_norms(const Matrix& values, const Matrix& output_weight, Norm norm) {
  std::vector<float> norms(static_cast<std::size_t>(values.rows()));
  constexpr Eigen::Index kRows = 256;  // bounds the product held at a time
  for (Eigen::Index first = 0; first < values.rows(); first += kRows) {
    const Eigen::Index count = std::min(kRows, values.rows() - first);
    const Matrix outputs = values.middleRows(first, count) * output_weight;
    for (Eigen::Index i = 0; i < count; ++i) {
      norms[static_cast<std::size_t>(first + i)] =
          norm == Norm::l1 ? outputs.row(i).lpNorm<1>() : outputs.row(i).norm();
    }
  }
  return norms;
}

}  // namespace kvloupe
