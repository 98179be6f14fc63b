#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "analysis/cache/head_cache.h"
#include "analysis/matrix.h"
#include "analysis/policy/policy.h"
#include "analysis/record/layer_states.h"

namespace kvloupe {

/// The entry that a step's last query saw in the cache and no later query sees: through a sliding
/// window there is one at most. It left on the model's account, so it counts as kept for that
/// query.
struct LeavingEntry {
  std::int32_t token = -1;  // −1: there is none
  Matrix key, value;        // [1,d] as they stood in the cache; value [0,d] where it held none
  float log_size = 0.0F;
};
/// Of a cache before the step's decision is carried out.
LeavingEntry leaving_entry(const HeadCache& cache, int last_query, int window);

/// What measures of one head at one step read: the captured states up to the step's last token (the
/// prefix), the policy's decision, and the cache as it stands after it. What the step's last query
/// sees are all tokens of the prefix, or those within the model's window. What several measures
/// need is computed when first asked for. Not safe to share by threads; valid while the step lasts.
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
    LeavingEntry leaving;
    MatrixView last_queries;  // [Hq,d], of the block's last token; not scaled
  };
  explicit MeasuredStep(Input input);

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
  MatrixView prefix_values() const;  // [prefix,d]; [0,d] where values are missing
  /// The first token that the step's last query sees; the last is prefix() − 1.
  int first_token() const { return first_token_; }
  MatrixView seen_keys() const;    // [seen,d]
  MatrixView seen_values() const;  // [seen,d]; as above
  /// [d,D] of a query head, or null where the trace has no output weights.
  const Matrix* output_weight(int query_head) const;
  /// [seen] = ‖v_i W_O‖ of a query head; empty where the trace has no output weights.
  std::span<const float> value_out_norms(int query_head, Norm norm) const;

  /// [d]: the step's last query of a query head, as captured.
  std::span<const float> last_query(int query_head) const;
  /// The same, scaled, over all that it sees, full cache: [seen].
  std::span<const float> logits(int query_head);
  /// A: softmax of those, in double.
  std::span<const double> attention(int query_head);
  const LeavingEntry& leaving() const { return input_.leaving; }
  /// What that query has of it: the entry that leaves unseen and those retained, as rows of what it
  /// sees, ascending.
  std::span<const std::int32_t> kept_rows() const { return kept_; }
  /// The same query over those entries as they stand, log sizes added: [kept].
  std::vector<float> cache_logits(int query_head) const;
  /// Their values as they stand [kept,d]; where the cache holds values.
  MatrixView cache_values();

 private:
  Eigen::VectorXf scaled_query(int query_head) const;

  Input input_;
  int first_token_;
  std::vector<std::int32_t> kept_;
  Matrix cache_values_;                         // [kept,d], where an entry leaves
  std::vector<std::vector<float>> logits_;      // [G]; empty until asked for
  std::vector<std::vector<double>> attention_;  // [G]
};

}  // namespace kvloupe
