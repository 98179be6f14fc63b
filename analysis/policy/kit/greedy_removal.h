#pragma once

#include <cstddef>
#include <vector>

#include <Eigen/Core>

namespace kvloupe {

/// One query's view of a cache: its logit for each entry, and the output that it should get.
struct JudgingQuery {
  Eigen::VectorXd logits;  // [n] of the removable entries; −∞ if the query does not see one
  Eigen::VectorXd kept_logits;  // [m] of the entries that always stay; may be empty
  Eigen::MatrixXd kept_values;  // [m,d]
  Eigen::VectorXd target;       // [d] the true output
};

/// The order in which entries are removed if each removal takes the entry whose removal leaves the
/// smallest Σ_queries ‖output − target‖², attention renormalised over the rest; among equals the
/// earlier row. `values` [n,d]. `removable` [n]: the others are never removed. Only the first
/// `most` are removed; the rest of the removable entries follow in the order of the error that each
/// would leave if it were removed next. Result: rows, first removed first; an entry whose removal
/// would leave nothing is not in the result. O(Q·n) per removal: an output without one entry
/// follows from sums over all of them. The sums are computed again if one entry holds nearly all of
/// a query's mass, and after much of the mass has gone.
std::vector<int> greedy_removal_order(const std::vector<JudgingQuery>& queries,
                                      const Eigen::MatrixXd& values,
                                      const std::vector<bool>& removable, std::size_t most);

}  // namespace kvloupe
