#pragma once
// The formulas of Attention Matching with dense matrices of doubles, least squares by QR.

#include <vector>

#include <Eigen/Core>

#include "tests/naive/naive_replay.h"

namespace kvloupe::naive {

/// Where the weights of entries may lie, and how many steps of projected gradient there are.
struct MatchingBounds {
  double least = 0.0, largest = 0.0;
  int steps = 0;
};
MatchingBounds matching_bounds(const SpecPart& part);

/// min ‖A X − Y‖, and beside the rows of A others that say X = prior, with the weight √pull.
Eigen::MatrixXd least_squares(const Eigen::MatrixXd& A, const Eigen::MatrixXd& Y,
                              const Eigen::MatrixXd& prior, double pull);
/// Mean squared length of a column.
double mean_square(const Eigen::MatrixXd& A);
/// B of M B ≈ target, within the bounds, near the weights before.
Eigen::VectorXd matched_weights(const Eigen::MatrixXd& M, const Eigen::VectorXd& target,
                                const Eigen::VectorXd& before, const MatchingBounds& bounds,
                                double pull);
/// Scores of keys=omp for so many picks: E [r,n], with the weights [n] that the entries have.
std::vector<double> pursued(const Eigen::MatrixXd& E, const Eigen::VectorXd& weights,
                            const SpecPart& part, int most);

}  // namespace kvloupe::naive
