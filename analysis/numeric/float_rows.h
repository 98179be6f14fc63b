#pragma once
// Loops over rows of float states that accumulate in double, for the widest vectors the processor
// has.

#include <cstddef>

namespace kvloupe {

/// Σ row[c]²
double squared_norm(const float* row, std::size_t d);

/// Whether none of the values is infinite or not a number.
bool all_finite(const float* values, std::size_t count);

/// sums[c] += factor · row[c]
void add_row(double* sums, const float* row, double factor, std::size_t d);

}  // namespace kvloupe
