#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "analysis/policy/kit/policy.h"
#include "analysis/trace/model_info.h"

namespace kvloupe {

class SharedPrefix;

/// ‖v_i W_O‖ of the entries of one layer's caches, mean over each group's query heads (CriticalKV
/// algorithm 1), kept across steps: only new rows are computed, when first asked for.
class ValueOutNorms {
 public:
  ValueOutNorms(const LayerContext& context, Norm norm);

  /// Throws WorkError if the context has no output weights; `who` names the part that needs them.
  void check(const std::string& who) const;

  /// [n]; check() must have passed. Different heads may be asked for at the same time.
  const std::vector<float>& of(const StepView& view, int head);
  /// Forgets entries that were not kept, and rows that a merge will change.
  void retain(const StepView& view, int head, const HeadDecision& decision);

 private:
  void compute(const CacheView& cache, int head, Eigen::Index first, Eigen::Index count);
  /// The tokens of some neighbouring rows, where other replays of the trace may have computed the
  /// same: values as captured, without a gap.
  std::optional<Block> shared_tokens(const CacheView& cache, int head, Eigen::Index first,
                                     Eigen::Index count) const;

  std::span<const OutputWeight> output_weights_;  // [Hq] of [d,D]
  int layer_;
  int num_heads_;
  int group_size_;
  Norm norm_;
  SharedPrefix* shared_;                   // with other replays of the trace; null: nothing
  std::vector<std::vector<float>> norms_;  // [Hk][n]; below 0: unknown
  std::vector<char> merged_;               // [Hk]: some values are no longer those captured
};

}  // namespace kvloupe
