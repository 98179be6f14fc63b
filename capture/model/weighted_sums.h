#pragma once

#include <cstddef>

namespace kvloupe {

/// sums[r] += Σ_k weights[r][k] · values[k] for R rows of weights [R,n] and values [n,d], float32,
/// rows `..._stride` floats apart. Values are read in place, so no row waits for a copy of them. A
/// row's sums do not depend on the other rows; terms are added in the order of k within stretches
/// of 256, and a weight of zero changes nothing. The kernel is chosen when the program starts.
struct WeightedSums {
  std::size_t rows = 0, n = 0, d = 0;
  const float* weights = nullptr;
  std::size_t weight_stride = 0;
  const float* values = nullptr;
  std::size_t value_stride = 0;
  float* sums = nullptr;
  std::size_t sum_stride = 0;
};
void add_weighted_sums(const WeightedSums& of);

}  // namespace kvloupe
