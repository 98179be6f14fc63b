#pragma once
// Blame: the output of each head if the tokens that it lost were back in its cache. The queries are
// those that write the answer; each reads the cache as it is at that query.

#include <Eigen/Core>
#include <limits>
#include <vector>

#include "analysis/base/core/progress.h"
#include "analysis/replay/ask.h"
#include "analysis/replay/record/records.h"
#include "analysis/trace/trace.h"

namespace kvloupe {

/// One head with its lost tokens restored. o': a query head's output with the entries in the cache,
/// o'': with the lost tokens there too, as they were. Means over the queries; 0 where nothing was
/// lost.
struct RestoredHead {
  static constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();
  int layer = 0;
  int head = 0;
  /// ‖Σ over the head's query heads of (o'' − o') W_O‖₂: how far the residual stream would move.
  double change = kUnknown;
  /// By how much that raises the logit of the token that follows the query, to first order.
  double effect = kUnknown;
};

/// Every head of the replay, in its order. `tokens`: ascending. Merged entries count as gone and
/// the others as they were captured. The queries are those of the answer, of the question where the
/// trace has no answer, else later ones. `effects` [Q,D] as in AskedLayer; null:
/// next_token_gradients(). Progress counts layers. Throws UsageError for tokens that the trace
/// lacks.
std::vector<RestoredHead> restored_heads(const Trace& trace, const Replay& replay,
                                         const std::vector<int>& tokens, const AskOptions& options,
                                         Progress& progress,
                                         const Eigen::MatrixXd* effects = nullptr);

/// The queries that restored_heads() asks.
std::vector<int> restoring_queries(const Trace& trace, const Replay& replay);

}  // namespace kvloupe
