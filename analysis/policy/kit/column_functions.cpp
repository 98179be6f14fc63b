#include "analysis/policy/kit/column_functions.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>

namespace kvloupe {

std::vector<double> column_zscore(const std::vector<double>& values) {
  const auto n = static_cast<double>(values.size());
  const double mean = std::accumulate(values.begin(), values.end(), 0.0) / n;
  double square = 0.0;
  for (const double x : values) square += (x - mean) * (x - mean);
  const double deviation = std::sqrt(square / n);
  const bool equal =
      std::adjacent_find(values.begin(), values.end(), std::not_equal_to<>()) == values.end();
  std::vector<double> result(values.size(), 0.0);
  if (equal || deviation == 0.0) return result;
  std::transform(values.begin(), values.end(), result.begin(),
                 [&](double x) { return (x - mean) / deviation; });
  return result;
}

std::vector<double> column_minmax(const std::vector<double>& values) {
  std::vector<double> result(values.size(), 0.0);
  if (values.empty()) return result;
  const auto [least, most] = std::minmax_element(values.begin(), values.end());
  if (*least == *most) return result;
  std::transform(values.begin(), values.end(), result.begin(),
                 [least = *least, most = *most](double x) { return (x - least) / (most - least); });
  return result;
}

std::vector<double> column_smooth(const std::vector<double>& values, int width) {
  const auto n = static_cast<std::ptrdiff_t>(values.size());
  const std::ptrdiff_t half = width / 2;
  std::vector<double> result(values.size());
  for (std::ptrdiff_t i = 0; i < n; ++i) {
    const auto first = values.begin() + std::max<std::ptrdiff_t>(i - half, 0);
    const auto end = values.begin() + std::min(i + half + 1, n);
    result[static_cast<std::size_t>(i)] = std::accumulate(first, end, 0.0) / width;
  }
  return result;
}

}  // namespace kvloupe
