#pragma once

#include <random>

#include "analysis/base/core/matrix.h"

namespace kvloupe::test {

/// Independent standard normal numbers, the same for the same seed.
inline Matrix random_matrix(int rows, int columns, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  Matrix m(rows, columns);
  for (int i = 0; i < rows; ++i) {
    for (int j = 0; j < columns; ++j) m(i, j) = normal(random);
  }
  return m;
}

}  // namespace kvloupe::test
