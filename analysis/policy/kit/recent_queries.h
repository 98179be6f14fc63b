#pragma once

#include <vector>

#include "analysis/policy/kit/policy.h"

namespace kvloupe {

/// The last queries of each query head, whatever steps they came in: while a model writes, a step
/// has one query, and a score that looks at a window of them must keep the earlier ones.
class RecentQueries {
 public:
  RecentQueries(const ModelInfo& model, int window);

  /// Call once per step for each head.
  void observe(const StepView& view, int head);
  /// [at most window, d], oldest first, rotated.
  const Matrix& of(int query_head) const { return queries_[static_cast<std::size_t>(query_head)]; }

 private:
  int group_size_;
  int window_;
  std::vector<Matrix> queries_;  // [Hq]
};

}  // namespace kvloupe
