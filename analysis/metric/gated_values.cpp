#include "analysis/metric/gated_values.h"

namespace kvloupe {

void multiply_columns(Matrix& matrix, std::span<const float> factors) {
  if (factors.empty()) return;
  const Eigen::Map<const Eigen::RowVectorXf> row(factors.data(), std::ssize(factors));
  matrix.array().rowwise() *= row.array();
}

}  // namespace kvloupe
