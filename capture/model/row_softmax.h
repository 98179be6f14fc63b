#pragma once

#include <cstddef>

namespace kvloupe {

/// Σ exp(scale · (values[i] − largest)) over n values up to `largest`, for scale > 0; with `keep`,
/// values[i] becomes its exponential. Relative error below 3e-7, and 0 below exp(−87.7); the sum in
/// float64 over short stretches. With the widest vectors that the processor has.
double sum_of_exponentials(float* values, std::size_t n, float largest, float scale, bool keep);

}  // namespace kvloupe
