#pragma once
// The error that the oracle's greedy removal minimises, summed again for every candidate.

#include <vector>

#include "analysis/policy/kit/greedy_removal.h"

namespace kvloupe::naive {

/// ‖output − target‖² of one query over the rows present, summed in long double.
long double error_over(const JudgingQuery& query, const Eigen::MatrixXd& values,
                       const std::vector<int>& present);

/// Fails the test unless each row of `order` was, of all rows still there, the one whose removal
/// left the least error, to 1e-9: places have no margin to tell ties by, errors have.
void expect_each_removal_is_the_least(const std::vector<JudgingQuery>& queries,
                                      const Eigen::MatrixXd& values, const std::vector<int>& order);

}  // namespace kvloupe::naive
