#pragma once

#include <vector>

#include "analysis/policy/kit/policy.h"

namespace kvloupe {

/// a_i ← a_i + Σ_rows A[:,i], mean over the query heads of the group, over all steps since entry i
/// entered. The sum of an evicted entry is dropped; a merged entry has the sum of its members
/// (KeyDiff A.1, CAOTE eq. 28, KVMerger eq. 8). Different heads may be used at the same time.
class AccumulatedAttention {
 public:
  explicit AccumulatedAttention(const ModelInfo& model);

  /// Call once per step, before the sums are read.
  void observe(const StepView& view, int head);
  /// [n]
  const std::vector<double>& of(int head) const { return sums_[static_cast<std::size_t>(head)]; }
  /// Once per step, last.
  void retain(int head, const HeadDecision& decision);

 private:
  ModelInfo model_;
  std::vector<std::vector<double>> sums_;  // [Hk][n]
};

}  // namespace kvloupe
