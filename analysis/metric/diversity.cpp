#include "analysis/metric/diversity.h"

#include <cmath>

#include "analysis/unknown.h"

namespace kvloupe {

namespace {
struct Directions {
  Eigen::RowVectorXd sum;  // Σ k̂
  double count = 0.0;      // Σ ‖k̂‖²: the keys that are not zero
};

Directions add_up(const MatrixView& keys, std::span<const std::int32_t> rows) {
  Directions result{Eigen::RowVectorXd::Zero(keys.cols()), 0.0};
  Eigen::RowVectorXd key(keys.cols());
  for (const std::int32_t row : rows) {
    key = keys.row(row).cast<double>();
    const double norm = key.norm();
    if (norm == 0.0) continue;
    result.sum += key / norm;
    result.count += 1.0;
  }
  return result;
}
}  // namespace

Diversity key_diversity(const MatrixView& keys, std::span<const std::int32_t> present,
                        std::span<const std::int32_t> retained) {
  const Directions set = add_up(keys, retained), cache = add_up(keys, present);
  const auto size = static_cast<double>(retained.size());
  Diversity result;
  result.objective = set.sum.squaredNorm();
  result.mean_cosine =
      retained.size() < 2 ? kUnknown : (result.objective - set.count) / (size * (size - 1.0));
  result.relaxation_gap =
      retained.empty() || present.empty()
          ? kUnknown
          : (set.sum / size - cache.sum / static_cast<double>(present.size())).norm();
  return result;
}

}  // namespace kvloupe
