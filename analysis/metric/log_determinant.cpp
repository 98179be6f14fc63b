#include "analysis/metric/log_determinant.h"

#include <Eigen/Eigenvalues>
#include <algorithm>
#include <cmath>
#include <limits>

namespace kvloupe {

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
