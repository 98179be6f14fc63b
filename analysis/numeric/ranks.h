#pragma once

#include <span>
#include <vector>

namespace kvloupe {

/// Ranks from 1 in ascending order; equal values share the mean of their ranks. Throws
/// std::invalid_argument for NaN.
std::vector<double> ranks_of(std::span<const double> values);

}  // namespace kvloupe
