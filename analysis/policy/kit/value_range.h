#pragma once

#include <vector>

#include "analysis/matrix.h"

namespace kvloupe {

/// max − min over the coordinates of a value.
template <typename Row>
float value_range(const Row& value) {
  return value.maxCoeff() - value.minCoeff();
}

/// The same of each of the first `count` rows: [count].
inline std::vector<float> value_ranges(const MatrixView& values, Eigen::Index count) {
  std::vector<float> ranges;
  for (Eigen::Index row = 0; row < count; ++row) {
    ranges.push_back(value_range(values.row(row)));
  }
  return ranges;
}

}  // namespace kvloupe
