#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "analysis/matrix.h"
#include "analysis/policy/policy.h"
#include "analysis/cache/head_cache.h"
#include "analysis/replay/layer_states.h"

namespace kvloupe {

/// What measures of one head at one step read: the captured states up to the step's last token (the
/// prefix), the policy's decision, and the cache as it stands after it. What several measures need
/// is computed when first asked for. Not safe to share by threads; valid while the step lasts.
class MeasuredStep {
 public:
  struct Input {
    const LayerStates& states;
    const LayerContext& context;
    const PolicySpec& policy;
    int head = 0;
    int step = 0;
    Block block;
    std::span<const std::int32_t> present;  // [n] tokens before the step's eviction, ascending
    const HeadDecision& decision;           // rows of `present`
    const HeadCache& cache;                 // after it
  };
  explicit MeasuredStep(const Input& input);

  const LayerStates& states() const { return input_.states; }
  const LayerContext& context() const { return input_.context; }
  const PolicySpec& policy() const { return input_.policy; }
  int head() const { return input_.head; }
  int step() const { return input_.step; }
  const Block& block() const { return input_.block; }
  std::span<const std::int32_t> present() const { return input_.present; }
  const HeadDecision& decision() const { return input_.decision; }
  const HeadCache& cache() const { return input_.cache; }
  /// Whether the scores are CAOTE's: what they were made from is then not known.
  bool value_aware() const {
    return input_.policy.find("caote") != nullptr || input_.policy.find("fastcaote") != nullptr;
  }
  /// Query heads of this head: first, and how many.
  int first_query_head() const;
  int group() const { return input_.context.model.group_size(); }
  /// Whether anything left at this step.
  bool evicted() const { return input_.decision.kept.size() < input_.present.size(); }

  Eigen::Index prefix() const { return input_.block.end; }
  MatrixView prefix_keys() const;    // [prefix,d]
  MatrixView prefix_values() const;  // [prefix,d]
  /// [d,D] of a query head, or null where the trace has no output weights.
  const Matrix* output_weight(int query_head) const;
  /// [prefix] = ‖v_i W_O‖ of a query head; empty where the trace has no output weights.
  std::span<const float> value_out_norms(int query_head, Norm norm) const;

  /// The step's last query, scaled, over the whole prefix, full cache: [prefix].
  std::span<const float> logits(int query_head);
  /// A: softmax of those, in double.
  std::span<const double> attention(int query_head);
  /// The same query over the cache as it stands, log sizes added: [cache].
  std::vector<float> cache_logits(int query_head) const;

 private:
  Eigen::VectorXf scaled_query(int query_head) const;

  Input input_;
  std::vector<std::vector<float>> logits_;      // [G]; empty until asked for
  std::vector<std::vector<double>> attention_;  // [G]
};

}  // namespace kvloupe
