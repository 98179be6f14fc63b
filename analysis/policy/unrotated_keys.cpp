#include "analysis/policy/unrotated_keys.h"

#include "analysis/policy/kept_rows.h"

namespace kvloupe {

void UnrotatedKeys::observe(const CacheView& cache) {
  const Eigen::Index n = cache.keys.rows();
  const auto before = static_cast<Eigen::Index>(known_.size());
  if (n > rows_.rows()) rows_.conservativeResize(n, cache.keys.cols());
  known_.resize(static_cast<std::size_t>(n), 0);
  for (Eigen::Index row = 0; row < n; ++row) {
    const auto index = static_cast<std::size_t>(row);
    if (row < before && known_[index] != 0) continue;
    rows_.row(row) = cache.keys.row(row);
    rope_.turn(std::span<float>(rows_.row(row).data(), static_cast<std::size_t>(rows_.cols())),
               -static_cast<double>(cache.tokens[index]));
    known_[index] = 1;
  }
  if (rows_.rows() > n) rows_.conservativeResize(n, Eigen::NoChange);
}

void UnrotatedKeys::retain(const HeadDecision& decision) {
  for (const Merge& merge : decision.merges) {
    if (!merge.key.empty()) known_[static_cast<std::size_t>(merge.into)] = 0;
  }
  if (decision.kept.size() == known_.size()) return;
  for (std::size_t j = 0; j < decision.kept.size(); ++j) {
    if (static_cast<std::int32_t>(j) != decision.kept[j]) {
      rows_.row(static_cast<Eigen::Index>(j)) = rows_.row(decision.kept[j]);
    }
  }
  keep_rows(known_, decision.kept);
}

}  // namespace kvloupe
