#pragma once

#include <vector>

#include "analysis/policy/kit/policy.h"

namespace kvloupe {

/// Attention statistics of a key-value head are means over its query heads (KeyDiff B.2). Calls
/// `statistic(query_head)`, [n] each, and averages in double. Result [n].
template <typename Statistic>
std::vector<double> group_mean(const ModelInfo& model, int head, std::size_t n,
                               const Statistic& statistic) {
  const int group = model.group_size();
  std::vector<double> mean(n, 0.0);
  for (int query_head = head * group; query_head < (head + 1) * group; ++query_head) {
    const auto& values = statistic(query_head);
    for (std::size_t i = 0; i < n; ++i) mean[i] += static_cast<double>(values[i]);
  }
  for (double& value : mean) value /= group;
  return mean;
}

inline std::vector<float> to_float(const std::vector<double>& values) {
  return {values.begin(), values.end()};
}

}  // namespace kvloupe
