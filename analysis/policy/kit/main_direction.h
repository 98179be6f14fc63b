#pragma once

#include <Eigen/Core>

namespace kvloupe {

/// The eigenvector of a symmetric matrix with the largest eigenvalue, of length 1 and of either
/// sign. Computed in double; of the other eigenvectors nothing is computed.
Eigen::VectorXd main_direction(const Eigen::MatrixXd& matrix);

}  // namespace kvloupe
