#include "analysis/policy/kit/smoothing.h"

#include <algorithm>
#include <cmath>

namespace kvloupe {

std::vector<double> smoothed(const std::vector<double>& values, int kernel, Pool pool, int n) {
  const int half = kernel / 2;
  std::vector<double> result = values;
  for (int i = 0; i < n; ++i) {
    double sum = 0.0;
    double largest = 0.0;
    for (int j = std::max(i - half, 0); j <= std::min(i + half, n - 1); ++j) {
      sum += values[static_cast<std::size_t>(j)];
      largest = std::max(largest, values[static_cast<std::size_t>(j)]);
    }
    // A comparison would ignore a NaN; a sum does not.
    const bool by_maximum = pool == Pool::maximum && std::isfinite(sum);
    result[static_cast<std::size_t>(i)] = by_maximum ? largest : sum / kernel;
  }
  return result;
}

}  // namespace kvloupe
