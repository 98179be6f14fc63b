#include "analysis/policy/kit/query_moments.h"

#include <gtest/gtest.h>

#include "tests/naive/decompositions.h"
#include "tests/support/random_matrix.h"

namespace kvloupe {
namespace {

/// How far a direction is from an eigenvector of the largest eigenvalue, relative to that. The
/// matrix has no negative eigenvalue, so its singular values are its eigenvalues.
double residual(const Eigen::MatrixXd& matrix) {
  const Eigen::VectorXd direction = main_direction(matrix);
  const double largest = naive::singular_values(matrix)[0];
  EXPECT_NEAR(direction.norm(), 1.0, 1e-12);
  return (matrix * direction - largest * direction).norm() / std::max(std::abs(largest), 1e-300);
}

TEST(MainDirection, BelongsToTheLargestEigenvalue) {
  for (const int n : {1, 2, 3, 8, 48, 128}) {
    for (const int rows : {1, 2, n, 4 * n}) {
      const Eigen::MatrixXd x =
          test::random_matrix(rows, n, static_cast<unsigned>(n + rows)).cast<double>();
      EXPECT_LT(residual(x.transpose() * x), 1e-11) << n << " " << rows;
    }
  }
}

TEST(MainDirection, IsFoundWhereTheLargestEigenvaluesAreEqual) {
  EXPECT_LT(residual(Eigen::MatrixXd::Identity(16, 16)), 1e-12);
  Eigen::VectorXd values = Eigen::VectorXd::LinSpaced(16, 0.0, 1.0);
  values[3] = values[9] = 2.0;
  EXPECT_LT(residual(values.asDiagonal()), 1e-12);
  values[3] += 1e-13;
  EXPECT_LT(residual(values.asDiagonal()), 1e-12);
  const Eigen::MatrixXd none = Eigen::MatrixXd::Zero(16, 16);
  EXPECT_NEAR(main_direction(none).norm(), 1.0, 1e-12);
}

}  // namespace
}  // namespace kvloupe
