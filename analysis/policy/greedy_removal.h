#pragma once

#include <cstddef>
#include <vector>

#include <Eigen/Core>

namespace kvloupe {

/// One query's view of a cache: what it pays to each entry, and what it should get.
struct JudgingQuery {
  Eigen::VectorXd logits;       // [n] of the entries that may go; −∞ for one it does not see
  Eigen::VectorXd kept_logits;  // [m] of entries that always stay; may be empty
  Eigen::MatrixXd kept_values;  // [m,d]
  Eigen::VectorXd target;       // [d] the true output
};

/// The order in which entries go when each time the one goes whose removal leaves the least
/// Σ_queries ‖output − target‖², attention renormalised over what is left; of equals the earlier
/// row. `values` [n,d]. `removable` [n]: the others never go. Only the first `most` go; the rest of
/// the removable follow by the error that each alone would leave if it went next. Result: rows,
/// first removed first; without one whose removal would leave nothing at all. O(Q·n) per removal:
/// an output without one entry follows from sums held over all of them; where one entry holds
/// nearly all of a query's mass, and where much of it has gone, they are summed anew.
std::vector<int> greedy_removal_order(const std::vector<JudgingQuery>& queries,
                                      const Eigen::MatrixXd& values,
                                      const std::vector<bool>& removable, std::size_t most);

}  // namespace kvloupe
