#pragma once

#include <cstddef>

namespace kvloupe {

/// Σ key[c]², accumulated in double.
double squared_norm(const float* key, std::size_t d);

/// Whether none of the values is infinite or not a number.
bool all_finite(const float* values, std::size_t count);

/// sums[c] += factor · key[c]
void add_key(double* sums, const float* key, double factor, std::size_t d);

}  // namespace kvloupe
