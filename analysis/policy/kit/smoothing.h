#pragma once

#include <vector>

namespace kvloupe {

enum class Pool { mean, maximum };

/// Smoothing along the first `n` entries with a window of `kernel` (odd) entries; what lies outside
/// of them counts as 0 and is divided by too. The entries from `n` on stay as they are.
std::vector<double> smoothed(const std::vector<double>& values, int kernel, Pool pool, int n);

}  // namespace kvloupe
