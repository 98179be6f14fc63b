#include "analysis/math/pca.h"

#include <Eigen/Eigenvalues>

#include "analysis/math/rope.h"

namespace kvloupe {

Matrix PrincipalComponents::project(const MatrixView& rows) const {
  return (rows.rowwise() - mean) * basis.transpose();
}

PrincipalComponents fit_principal_components(const MatrixView& keys) {
  const Eigen::Index n = keys.rows(), d = keys.cols();
  PrincipalComponents result;
  result.basis = Matrix::Zero(2, d);
  result.mean = Eigen::RowVectorXf::Zero(d);
  if (n == 0 || d == 0) return result;
  Eigen::MatrixXd centred = keys.cast<double>();
  const Eigen::RowVectorXd mean = centred.colwise().mean();
  centred.rowwise() -= mean;
  result.mean = mean.cast<float>();
  Eigen::MatrixXd covariance = Eigen::MatrixXd::Zero(d, d);
  covariance.selfadjointView<Eigen::Lower>().rankUpdate(centred.transpose(),
                                                        1.0 / static_cast<double>(n));
  const Eigen::SelfAdjointEigenSolver<Eigen::MatrixXd> solver(covariance);  // ascending
  const double total = covariance.diagonal().sum();
  for (Eigen::Index component = 0; component < std::min<Eigen::Index>(2, d); ++component) {
    Eigen::VectorXd direction = solver.eigenvectors().col(d - 1 - component);
    Eigen::Index largest = 0;
    direction.cwiseAbs().maxCoeff(&largest);
    if (direction[largest] < 0.0) direction = -direction;
    result.basis.row(component) = direction.cast<float>().transpose();
    const double variance = std::max(0.0, solver.eigenvalues()[d - 1 - component]);
    result.explained[component] = total > 0.0 ? variance / total : 0.0;
  }
  return result;
}

Matrix undo_rope(const MatrixView& keys, const ModelInfo& model, int first_position) {
  const Rope rope(model);
  Matrix result = keys;
  for (Eigen::Index i = 0; i < keys.rows(); ++i) {
    rope.turn({result.data() + i * result.cols(), static_cast<std::size_t>(result.cols())},
              -static_cast<double>(first_position + i));
  }
  return result;
}

}  // namespace kvloupe
