#include "analysis/metric/pair_rotation.h"

#include <cmath>
#include <span>
#include <stdexcept>

#include "analysis/metric/angle.h"
#include "analysis/metric/rope.h"
#include "analysis/unknown.h"

namespace kvloupe {

namespace {
constexpr int kMonotone = 3;  // cos falls from 0 to π

/// Whole keys turned back to before RoPE, [T,d]; row = position.
Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor> turned_back(
    const MatrixView& keys, const Rope& rope) {
  Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor> result =
      keys.cast<double>();
  for (Eigen::Index i = 0; i < result.rows(); ++i) {
    rope.turn(std::span<double>(result.row(i).data(), static_cast<std::size_t>(result.cols())),
              -static_cast<double>(i));
  }
  return result;
}

template <typename Row>
Eigen::RowVector2d pair_of(const Row& row, const Rope::Pair& pair) {
  return {static_cast<double>(row[pair.first]), static_cast<double>(row[pair.second])};
}
}  // namespace

std::vector<PairRotation> pair_rotations(const MatrixView& keys, const ModelInfo& model,
                                         int distance, double least_cosine) {
  if (distance < 1) throw std::invalid_argument("pair_rotations: a distance below 1");
  const Rope rope(model);
  const auto before = turned_back(keys, rope);
  const double least_inside = std::cos(static_cast<double>(distance)) - 1e-12;
  std::vector<PairRotation> result(rope.pairs());
  for (Eigen::Index m = distance; m < keys.rows(); ++m) {
    const Eigen::Index n = m - distance;
    if (cosine(keys.row(m).cast<double>(), keys.row(n).cast<double>()) < least_cosine) continue;
    for (std::size_t j = 0; j < result.size(); ++j) {
      const Rope::Pair pair = rope.pair(j);
      const Eigen::RowVector2d a = pair_of(before.row(m), pair), b = pair_of(before.row(n), pair);
      const double norms = a.norm() * b.norm();
      if (norms == 0.0) continue;
      const double turned = a.dot(b) / norms;
      result[j].before += turned;
      result[j].after += pair_of(keys.row(m), pair).dot(pair_of(keys.row(n), pair)) /
                         norms;  // turning keeps norms
      result[j].inside += turned >= least_inside ? 1.0 : 0.0;
      ++result[j].neighbours;
    }
  }
  for (std::size_t j = 0; j < result.size(); ++j) {
    PairRotation& one = result[j];
    const auto count = static_cast<double>(one.neighbours);
    one.predicted = std::cos(distance * rope.pair(j).frequency);
    one.before = one.neighbours > 0 ? one.before / count : kUnknown;
    one.after = one.neighbours > 0 ? one.after / count : kUnknown;
    one.inside = one.neighbours > 0 && distance <= kMonotone ? one.inside / count : kUnknown;
  }
  return result;
}

}  // namespace kvloupe
