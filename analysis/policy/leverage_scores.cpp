#include "analysis/policy/leverage_scores.h"

#include <Eigen/Cholesky>
#include <cmath>
#include <numbers>

#include "analysis/policy/token_hash.h"

namespace kvloupe {

double sketch_entry(std::uint64_t seed, int layer, int head, int row, int column) {
  const std::int32_t place = 2 * (row * 65536 + column);
  const double a = 1.0 - static_cast<double>(token_hash(seed, layer, head, place));  // above 0
  const double b = static_cast<double>(token_hash(seed, layer, head, place + 1));
  return std::sqrt(-2.0 * std::log(a)) * std::cos(2.0 * std::numbers::pi * b);
}

Eigen::VectorXd leverage_scores(const Eigen::MatrixXd& keys, const LeverageRule& rule, int layer,
                                int head) {
  if (keys.rows() == 0) return {};
  Eigen::MatrixXd x = keys.rowwise() - keys.colwise().mean();
  const auto d = static_cast<int>(keys.cols());
  if (rule.sketch > 0 && rule.sketch < d) {
    Eigen::MatrixXd projection(d, rule.sketch);
    for (int row = 0; row < d; ++row) {
      for (int column = 0; column < rule.sketch; ++column) {
        projection(row, column) =
            sketch_entry(rule.seed, layer, head, row, column) / std::sqrt(rule.sketch);
      }
    }
    x = (x * projection).eval();
  }
  Eigen::MatrixXd gram = x.transpose() * x;
  gram.diagonal().array() += rule.ridge;
  // L⁻¹xᵀ has the square x G⁻¹ xᵀ for its length, which cannot be negative.
  const Eigen::LLT<Eigen::MatrixXd> factor(gram);
  const Eigen::MatrixXd solved = factor.matrixL().solve(x.transpose());
  return solved.colwise().squaredNorm().transpose();
}

}  // namespace kvloupe
