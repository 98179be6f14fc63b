#include "tests/naive/decompositions.h"

#include <Eigen/LU>
#include <Eigen/SVD>

namespace kvloupe::naive {

namespace {
/// Of XᵀX: square, so that it needs no QR decomposition first, which takes twice as long to
/// compile.
using SquareSvd = Eigen::JacobiSVD<Eigen::MatrixXd, Eigen::NoQRPreconditioner>;

SquareSvd of_gram(const Eigen::MatrixXd& x) {
  return SquareSvd(x.transpose() * x, Eigen::ComputeFullV);
}
}  // namespace

Eigen::VectorXd singular_values(const Eigen::MatrixXd& matrix) {
  return of_gram(matrix).singularValues().cwiseSqrt();
}

Eigen::VectorXd first_direction(const Eigen::MatrixXd& matrix) {
  return of_gram(matrix).matrixV().col(0);
}

Eigen::MatrixXd inverse(const Eigen::MatrixXd& matrix) { return matrix.inverse(); }

double determinant(const Eigen::MatrixXd& matrix) { return matrix.determinant(); }

}  // namespace kvloupe::naive
