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

/// min ‖A X − Y‖, columns of A scaled to length 1 and `ridge` added to their squared length.
Eigen::MatrixXd least_squares(const Eigen::MatrixXd& A, const Eigen::MatrixXd& Y, double ridge);
/// B of M B ≈ target, within the bounds.
Eigen::VectorXd matched_weights(const Eigen::MatrixXd& M, const Eigen::VectorXd& target,
                                const MatchingBounds& bounds, double ridge);
/// Scores of keys=omp for so many picks: E [r,n].
std::vector<double> pursued(const Eigen::MatrixXd& E, const SpecPart& part, int most);

}  // namespace kvloupe::naive
