#include "analysis/math/norms.h"

#include <algorithm>
#include <limits>

namespace kvloupe {

std::vector<float> row_norms(const MatrixView& rows) {
  std::vector<float> norms(static_cast<std::size_t>(rows.rows()));
  for (Eigen::Index i = 0; i < rows.rows(); ++i) {
    norms[static_cast<std::size_t>(i)] = static_cast<float>(rows.row(i).cast<double>().norm());
  }
  return norms;
}

float median(std::span<const float> values) {
  if (values.empty()) return std::numeric_limits<float>::quiet_NaN();
  std::vector<float> sorted(values.begin(), values.end());
  const auto middle = sorted.begin() + static_cast<std::ptrdiff_t>(sorted.size() / 2);
  std::nth_element(sorted.begin(), middle, sorted.end());
  if (sorted.size() % 2 == 1) return *middle;
  return (*middle + *std::max_element(sorted.begin(), middle)) / 2.0F;
}

void multiply_columns(Matrix& matrix, std::span<const float> factors) {
  if (factors.empty()) return;
  const Eigen::Map<const Eigen::RowVectorXf> row(factors.data(), std::ssize(factors));
  matrix.array().rowwise() *= row.array();
}

}  // namespace kvloupe
