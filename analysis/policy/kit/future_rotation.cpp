#include "analysis/policy/kit/future_rotation.h"

#include <cmath>

namespace kvloupe {

FutureRotation::FutureRotation(const Rope& rope, int first, int count) {
  for (std::size_t j = 0; j < rope.pairs(); ++j) {
    const Rope::Pair pair = rope.pair(j);
    // The sum is geometric: exp(i (first + (count − 1)/2) ω) sin(count ω/2) / sin(ω/2).
    const double below = std::sin(pair.frequency / 2.0);
    const double length =
        std::abs(below) < 1e-9 ? 1.0 : std::sin(count * pair.frequency / 2.0) / (count * below);
    const double angle = (first + (count - 1) / 2.0) * pair.frequency;
    turns_.push_back({pair, length * std::cos(angle), length * std::sin(angle)});
  }
}

Eigen::VectorXd FutureRotation::of(const Eigen::VectorXd& query) const {
  Eigen::VectorXd result = query;
  for (const Turn& turn : turns_) {
    const double x = query[turn.pair.first], y = query[turn.pair.second];
    result[turn.pair.first] = x * turn.real - y * turn.imaginary;
    result[turn.pair.second] = y * turn.real + x * turn.imaginary;
  }
  return result;
}

Eigen::MatrixXd FutureRotation::of(const Eigen::MatrixXd& covariance) const {
  Eigen::MatrixXd half(covariance.rows(), covariance.cols());  // R̄ Σ
  for (Eigen::Index c = 0; c < covariance.cols(); ++c) half.col(c) = of(covariance.col(c).eval());
  Eigen::MatrixXd result(covariance.rows(), covariance.cols());
  for (Eigen::Index r = 0; r < half.rows(); ++r) {
    result.row(r) = of(half.row(r).transpose().eval()).transpose();
  }
  return result;
}

}  // namespace kvloupe
