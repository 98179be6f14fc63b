#include "analysis/policy/kit/main_direction.h"

#include <Eigen/Eigenvalues>
#include <limits>

namespace kvloupe {

namespace {
constexpr int kMostRounds = 100;

/// The eigenvector of a symmetric tridiagonal matrix for its largest eigenvalue, by inverse
/// iteration: (shift − T) is positive definite for a shift a little above, so no pivots are needed.
/// Not finite if no direction is found.
Eigen::VectorXd of_tridiagonal(const Eigen::VectorXd& diagonal, const Eigen::VectorXd& beside,
                               double largest) {
  const Eigen::Index n = diagonal.size();
  const double size = std::max(diagonal.cwiseAbs().maxCoeff(), beside.cwiseAbs().maxCoeff());
  const double shift = largest + 1e-12 * size;
  Eigen::VectorXd pivots(n), factors(n);
  for (Eigen::Index i = 0; i < n; ++i) {
    pivots[i] = shift - diagonal[i];
    if (i == 0) continue;
    factors[i] = -beside[i - 1] / pivots[i - 1];
    pivots[i] += factors[i] * beside[i - 1];
  }
  Eigen::VectorXd x = Eigen::VectorXd::LinSpaced(n, 1.0, 2.0).normalized();
  for (int round = 0; round < kMostRounds; ++round) {
    Eigen::VectorXd next = x;
    for (Eigen::Index i = 1; i < n; ++i) next[i] -= factors[i] * next[i - 1];
    next[n - 1] /= pivots[n - 1];
    for (Eigen::Index i = n - 1; i-- > 0;) {
      next[i] = next[i] / pivots[i] - factors[i + 1] * next[i + 1];
    }
    next.normalize();
    const double moved = (next - x).norm();
    x = next;
    if (!(moved > 1e-13)) return x;
  }
  return Eigen::VectorXd::Constant(n, std::numeric_limits<double>::quiet_NaN());
}
}  // namespace

Eigen::VectorXd main_direction(const Eigen::MatrixXd& matrix) {
  const Eigen::Index n = matrix.cols();
  if (n > 2 && matrix.cwiseAbs().maxCoeff() > 0.0) {
    const Eigen::Tridiagonalization<Eigen::MatrixXd> simpler(matrix);
    const Eigen::VectorXd diagonal = simpler.diagonal(), beside = simpler.subDiagonal();
    Eigen::SelfAdjointEigenSolver<Eigen::MatrixXd> values;
    values.computeFromTridiagonal(diagonal, beside, Eigen::EigenvaluesOnly);
    Eigen::VectorXd direction = of_tridiagonal(diagonal, beside, values.eigenvalues()[n - 1]);
    if (direction.allFinite()) return simpler.matrixQ() * direction;
  }
  // Two largest eigenvalues that are all but equal, or a small matrix.
  return Eigen::SelfAdjointEigenSolver<Eigen::MatrixXd>(matrix).eigenvectors().col(n - 1);
}

}  // namespace kvloupe
