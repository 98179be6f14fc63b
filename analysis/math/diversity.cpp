#include "analysis/math/diversity.h"

#include <Eigen/Eigenvalues>

#include <algorithm>
#include <limits>

#include "analysis/base/text/unknown.h"

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

LogDeterminant log_pseudo_determinant(const MatrixView& keys) {
  LogDeterminant result;
  const Eigen::Index n = keys.rows(), d = keys.cols();
  if (n == 0 || d == 0) return result;
  const Eigen::MatrixXd k = keys.cast<double>();
  Eigen::MatrixXd gram = Eigen::MatrixXd::Zero(std::min(n, d), std::min(n, d));
  if (n < d) {
    gram.selfadjointView<Eigen::Lower>().rankUpdate(k);
  } else {
    gram.selfadjointView<Eigen::Lower>().rankUpdate(k.transpose());
  }
  const Eigen::SelfAdjointEigenSolver<Eigen::MatrixXd> solver(gram, Eigen::EigenvaluesOnly);
  const Eigen::VectorXd& eigenvalues = solver.eigenvalues();  // ascending
  const double largest = eigenvalues[eigenvalues.size() - 1];
  if (!(largest > 0.0)) return result;
  const double limit =
      static_cast<double>(std::max(n, d)) * std::numeric_limits<double>::epsilon() * largest;
  for (const double eigenvalue : eigenvalues) {
    if (eigenvalue > limit) {
      result.value += std::log(eigenvalue);
      ++result.rank;
    }
  }
  return result;
}

}  // namespace kvloupe
