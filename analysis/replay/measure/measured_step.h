#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "analysis/base/core/matrix.h"
#include "analysis/policy/kit/policy.h"
#include "analysis/replay/cache/head_cache.h"
#include "analysis/replay/measure/shared_measures.h"
#include "analysis/replay/record/layer_states.h"

namespace kvloupe {

/// The entries that a step's last query saw in the cache and that no later query sees: at most one
/// leaves a sliding window, all leave where a chunk ends. This is not an eviction, so they count as
/// kept for that query.
struct LeavingEntries {
  std::vector<std::int32_t> tokens;  // [k], ascending
  Matrix keys, values;  // [k,d] as they stood in the cache; values [0,d] where it held none
  std::vector<float> log_sizes;  // [k]; empty: all 0

  Eigen::Index count() const { return std::ssize(tokens); }
};
/// Those of a cache before the step's decision is carried out.
LeavingEntries leaving_entries(const HeadCache& cache, int last_query, const Reach& reach);

/// The inputs of the measures of one head at one step: the captured states up to the step's last
/// token (the prefix), the policy's decision, and the cache after it. The step's last query sees
/// all tokens of the prefix, or those in the model's window. Numbers that several measures need are
/// computed when first asked for. Not thread-safe; valid only during the step.
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
    LeavingEntries leaving;
    MatrixView last_queries;  // [Hq,d], of the block's last token; not scaled
    SharedMeasures* shared =
        nullptr;  // what is known from other replays of the trace; null: nothing
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
  /// Whether the scores are of a value-aware form: the scores before that form are then not known.
  bool value_aware() const;
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
  /// [d]: the factors of a query head's output for the step's last query; empty without a gate.
  std::span<const float> gate(int query_head) const;
  /// seen_values() times the gate: outputs made of them are those that W_O receives.
  MatrixView gated_values(int query_head);
  /// [d,D] of a query head, or null if the trace has no output weights.
  const OutputWeight* output_weight(int query_head) const;
  /// [seen] = ‖v_i W_O‖ of a query head, with a gate ‖(g ⊙ v_i) W_O‖; empty where the trace has no
  /// output weights.
  std::span<const float> value_out_norms(int query_head, Norm norm);

  SharedMeasures* shared() const { return input_.shared; }
  SharedMeasures::Place place(int query_head) const {
    return {input_.context.layer, query_head, input_.block.end - 1};
  }
  /// [d]: the step's last query of a query head, as captured.
  std::span<const float> last_query(int query_head) const;
  /// Logits of that query with the full cache, over all entries that it sees: [seen].
  std::span<const float> logits(int query_head);
  /// A: softmax of those and the sink logit, in double.
  std::span<const double> attention(int query_head);
  /// How this query head makes attention of its products.
  LogitRule rule(int query_head) const { return input_.context.attention.of(query_head); }
  /// A V: the query head's output with the full cache, before W_O and times the gate: [d]; empty
  /// without values.
  std::span<const double> output(int query_head);
  const LeavingEntries& leaving() const { return input_.leaving; }
  /// The entries that this query still has: the retained ones and those that leave unseen, as rows
  /// among the tokens that the query sees, ascending.
  std::span<const std::int32_t> kept_rows() const { return kept_; }
  /// Logits of the same query over these entries as they are in the cache, log sizes added: [kept].
  std::vector<float> cache_logits(int query_head) const;
  /// Values of these entries as they are in the cache, times the gate: [kept,d]; only if the cache
  /// holds values.
  MatrixView cache_values(int query_head);

 private:
  /// Logits of the last query over these keys [n,d].
  std::vector<float> logits_over(const MatrixView& keys, int query_head) const;
  std::vector<double> output_of(int query_head, std::span<const double> attention);
  /// From other replays; null where nothing is shared.
  const FullAttention* from_shared(int query_head);

  Input input_;
  int first_token_;
  std::vector<std::int32_t> kept_;
  Matrix cache_values_;                // [kept,d], where entries leave or there is a gate
  Matrix gated_values_;                // [seen,d], of the query head below
  std::vector<float> gated_norms_[2];  // by norm, of the query head last asked for
  int gated_head_ = -1;
  std::vector<std::vector<float>> logits_;                    // [G]; empty until asked for
  std::vector<std::vector<double>> attention_;                // [G]
  std::vector<std::vector<double>> output_;                   // [G]
  std::vector<std::shared_ptr<const FullAttention>> shared_;  // [G]; null until asked for
};

}  // namespace kvloupe
