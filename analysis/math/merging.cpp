#include "analysis/math/merging.h"

#include <algorithm>
#include <limits>

namespace kvloupe {

namespace {
using Rows = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

template <typename Row>
Eigen::RowVectorXd direction(const Row& row) {
  const Eigen::RowVectorXd wide = row.template cast<double>();
  const double norm = wide.norm();
  if (norm == 0.0) return Eigen::RowVectorXd::Zero(wide.size());
  return wide / norm;
}

Rows directions(const MatrixView& rows) {
  Rows result(rows.rows(), rows.cols());
  for (Eigen::Index i = 0; i < rows.rows(); ++i) result.row(i) = direction(rows.row(i));
  return result;
}
}  // namespace

MergeMeasures merge_measures(const MatrixView& keys, std::span<const int> members,
                             std::span<const float> weights, std::span<const float> merged_key) {
  constexpr Eigen::Index kTile = 64;
  const auto count = static_cast<Eigen::Index>(members.size());
  MergeMeasures result;
  Rows unit(count, keys.cols());
  for (Eigen::Index i = 0; i < count; ++i) {
    unit.row(i) = direction(keys.row(members[static_cast<std::size_t>(i)]));
  }
  result.least_cosine = count > 1 ? 1.0 : unit.row(0).squaredNorm();
  Rows products;
  for (Eigen::Index first = 0; first < count; first += kTile) {
    const Eigen::Index rows = std::min(kTile, count - first);
    products.noalias() = unit.middleRows(first, rows) * unit.transpose();
    for (Eigen::Index i = 0; i < rows; ++i) {
      for (Eigen::Index j = 0; j < first + i; ++j) {
        result.least_cosine = std::min(result.least_cosine, products(i, j));
      }
    }
  }
  double squares = 0.0;
  for (const float weight : weights) {
    squares += static_cast<double>(weight) * static_cast<double>(weight);
  }
  result.effective_members = 1.0 / squares;
  const Eigen::Map<const Eigen::RowVectorXf> merged(merged_key.data(), keys.cols());
  const Eigen::VectorXd cosines = unit * direction(merged).transpose();
  result.least_member_cosine = cosines.minCoeff();
  result.mean_member_cosine = cosines.mean();
  return result;
}

std::vector<double> local_similarity(const MatrixView& rows, Eigen::Index token, int most) {
  const Eigen::RowVectorXd own = direction(rows.row(token));
  std::vector<double> result;
  for (int distance = 1; distance <= most; ++distance) {
    result.push_back(token < distance ? std::numeric_limits<double>::quiet_NaN()
                                      : own.dot(direction(rows.row(token - distance))));
  }
  return result;
}

namespace {
/// Mean over all pairs of `unit` rows that are so far apart; NaN without a pair.
double mean_similarity(const Rows& unit, int distance) {
  const Eigen::Index pairs = std::max<Eigen::Index>(unit.rows() - distance, 0);
  return pairs == 0 ? std::numeric_limits<double>::quiet_NaN()
                    : unit.topRows(pairs).cwiseProduct(unit.bottomRows(pairs)).sum() /
                          static_cast<double>(pairs);
}
}  // namespace

double mean_similarity_at(const MatrixView& rows, int distance) {
  return mean_similarity(directions(rows), distance);
}

std::vector<double> mean_local_similarity(const MatrixView& rows, int most) {
  const Rows unit = directions(rows);
  std::vector<double> result;
  for (int distance = 1; distance <= most; ++distance) {
    result.push_back(mean_similarity(unit, distance));
  }
  return result;
}

}  // namespace kvloupe
