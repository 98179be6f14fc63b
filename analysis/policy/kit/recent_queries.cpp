#include "analysis/policy/kit/recent_queries.h"

#include <algorithm>
#include <utility>

namespace kvloupe {

RecentQueries::RecentQueries(const ModelInfo& model, int window)
    : group_size_(model.group_size()),
      window_(window),
      queries_(static_cast<std::size_t>(model.num_heads), Matrix(0, model.head_dim)) {}

void RecentQueries::observe(const StepView& view, int head) {
  for (int query_head = head * group_size_; query_head < (head + 1) * group_size_; ++query_head) {
    const auto index = static_cast<std::size_t>(query_head);
    const MatrixView& added = view.queries[index];
    const Matrix& before = queries_[index];
    const Eigen::Index fresh = std::min<Eigen::Index>(added.rows(), window_);
    const Eigen::Index old = std::min<Eigen::Index>(before.rows(), window_ - fresh);
    Matrix last(old + fresh, added.cols());
    last.topRows(old) = before.bottomRows(old);
    last.bottomRows(fresh) = added.bottomRows(fresh);
    queries_[index] = std::move(last);
  }
}

}  // namespace kvloupe
