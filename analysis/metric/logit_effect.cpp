#include "analysis/metric/logit_effect.h"

#include <algorithm>
#include <cmath>

namespace kvloupe {

LogitEffect logit_effect(const Matrix& lm_head, const Eigen::VectorXd& change, int count) {
  std::vector<LogitEffect::Change> all;
  for (Eigen::Index token = 0; token < lm_head.rows(); ++token) {
    double logit = 0.0;
    for (Eigen::Index i = 0; i < lm_head.cols(); ++i) {
      logit += static_cast<double>(lm_head(token, i)) * change[i];
    }
    all.push_back({static_cast<std::int32_t>(token), logit});
  }
  LogitEffect result;
  if (all.empty()) return result;
  const auto vocabulary = static_cast<double>(all.size());
  for (const LogitEffect::Change& one : all) result.mean += one.change / vocabulary;
  for (const LogitEffect::Change& one : all) {
    result.norm += (one.change - result.mean) * (one.change - result.mean) / vocabulary;
  }
  result.norm = std::sqrt(result.norm);
  // Among equal changes the lower token id comes first.
  const auto falls_more = [](const LogitEffect::Change& a, const LogitEffect::Change& b) {
    return a.change != b.change ? a.change < b.change : a.token < b.token;
  };
  const auto rises_more = [](const LogitEffect::Change& a, const LogitEffect::Change& b) {
    return a.change != b.change ? a.change > b.change : a.token < b.token;
  };
  const auto top = static_cast<std::ptrdiff_t>(
      std::min(all.size(), static_cast<std::size_t>(std::max(count, 0))));
  std::partial_sort(all.begin(), all.begin() + top, all.end(), rises_more);
  for (auto it = all.begin(); it != all.begin() + top && it->change > 0.0; ++it) {
    result.up.push_back(*it);
  }
  std::partial_sort(all.begin(), all.begin() + top, all.end(), falls_more);
  for (auto it = all.begin(); it != all.begin() + top && it->change < 0.0; ++it) {
    result.down.push_back(*it);
  }
  return result;
}

}  // namespace kvloupe
