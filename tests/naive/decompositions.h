#pragma once

#include <Eigen/Core>

namespace kvloupe::naive {

// Eigen's decompositions, which are compiled here once: one costs 5 to 10 s in each file that uses
// it.

Eigen::VectorXd singular_values(const Eigen::MatrixXd& matrix);  // descending

/// The right singular vector of the largest singular value.
Eigen::VectorXd first_direction(const Eigen::MatrixXd& matrix);

Eigen::MatrixXd inverse(const Eigen::MatrixXd& matrix);

double determinant(const Eigen::MatrixXd& matrix);

}  // namespace kvloupe::naive
