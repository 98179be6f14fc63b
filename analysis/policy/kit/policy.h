#pragma once
// A policy is a state machine that sees states, not files. A replay (of a trace) and a running
// model (closed loop) use the same object. It never knows how long the sequence will become.

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "analysis/base/core/matrix.h"
#include "analysis/policy/kit/spec.h"
#include "analysis/trace/layer_attention.h"
#include "analysis/trace/model_info.h"
#include "analysis/trace/output_weight.h"

namespace kvloupe {

/// Runs body(0) … body(count − 1), in any order, perhaps at the same time. Empty: one after
/// another. The policy's decisions do not depend on the order.
using HeadLoop = std::function<void(int count, const std::function<void(int)>& body)>;

class Progress;
class SequenceTables;
class WholePass;

/// The data a policy gets when it is created, for one layer. One object serves all heads of a
/// layer: AdaKV and aggregate=layer need them together.
struct LayerContext {
  int layer = 0;
  ModelInfo model = {};  // with the layer's own window and rotation
  LayerAttention attention = {};
  int budget = 0;         // N: largest number of entries per head after a step (allocation: mean)
  int prompt_length = 0;  // tokens of the prompt; 0: not known
  /// Whether each token is structural (segments.h), borrowed: of the tokens so far at
  /// least; grows while a model writes. Null: not known.
  const std::vector<char>* structural = nullptr;
  /// [Hq] of [d,D], W_O cut by query head, borrowed: must outlive the policy; empty if unknown.
  std::span<const OutputWeight> output_weights = {};
  HeadLoop for_heads = {};
  /// Tables over all layers of the replayed sequence, borrowed; null in a running model, which does
  /// not know the sequence's end when it begins.
  const SequenceTables* sequence = nullptr;
  /// Numbers of all layers of a running model for the tokens so far (whole_pass.h), borrowed: then
  /// step() is called after the whole pass. Null: the layers of `sequence` say it, or nobody.
  WholePass* pass = nullptr;
  /// Progress of the work that the policy is part of, borrowed: a score that waits for another
  /// program looks whether the work was cancelled. Null: the work cannot be cancelled.
  const Progress* progress = nullptr;
};

/// One head's cache at a step, before eviction: n entries in token order, including those of the
/// block. With a sliding window, entries that no later query sees have already left.
struct CacheView {
  std::span<const std::int32_t> tokens;  // [n] token indices, ascending
  MatrixView keys;                       // [n,d], rotated
  MatrixView values;                     // [n,d]; empty unless the policy needs_values()
  std::span<const float> log_sizes;      // [n] added to logits (synthetic entries); empty: all 0
};

/// Softmax rows of a step's queries over the current cache, causal inside the block and within the
/// model's window, in float32 from the states themselves. An entry that left the window at this
/// step has no column, but its attention still counts in a row's sum, so rows may sum to less than
/// 1; so does a sink logit. Rows are computed when first asked for and kept for the step, so that
/// the parts of a policy share them. Different query heads may be asked for at the same time.
class StepAttention {
 public:
  virtual ~StepAttention() = default;
  /// The last `count` rows (or all m if fewer) of one query head: [count,n], row = query, oldest
  /// first, after softmax. Valid until the next call for this query head.
  virtual MatrixView last_rows(int query_head, int count) = 0;
  /// Sum over all m rows: [n]. Never holds more than a tile of rows.
  virtual const std::vector<float>& column_sums(int query_head) = 0;
};

/// The states of the whole sequence with the full cache, past and future. Only a replay has them.
struct WholeSequence {
  std::span<const Matrix> queries;  // [Hq] of [T,d], rotated
  std::span<const Matrix> keys;     // [Hk] of [T,d], rotated
  std::span<const Matrix> values;   // [Hk] of [T,d]
};

/// One step: a block was appended and has attended; now the policy decides.
struct StepView {
  int step = 0;
  Block block;                      // the tokens that were just appended
  int first_token = 0;              // later queries see no token before this one
  std::vector<CacheView> caches;    // [Hk]
  std::vector<MatrixView> queries;  // [Hq] of [m,d], rotated
  StepAttention* attention = nullptr;
  const WholeSequence* whole = nullptr;  // null in a running model: the future is unknown
};

/// Why an entry was kept, or that it was not kept.
enum class Fate : std::uint8_t {
  evicted,
  by_score,
  by_second_stage,
  recent,
  sink,
  window,
  merged,
  held,          // kept because a person said so (keep)
  dropped,       // evicted because a person said so (drop)
  beyond_window  // left on the model's account: no later query sees it; no policy says this
};

/// One synthetic entry, as rows of the cache before the step's eviction: an entry that is neither
/// kept as it was nor evicted. The caller replaces row `into` of the cache: its key by `key`, its
/// value by `value` or else by value_scale · Σ weights·values of `from`, its log size by
/// `log_size`, all computed from the rows before any merge of the step. A merging set gives all its
/// members (kvmerger), a value that is given away its givers and the receiver with weight 1 (cam),
/// a refitted entry only itself, with a value of its own (attentionmatching).
struct Merge {
  int into = 0;                // the pivot's row; kept
  std::vector<int> from;       // all members, pivot included, ascending
  std::vector<float> weights;  // [from.size()]
  float value_scale = 1.0F;
  std::vector<float> key;         // [d], rotated; empty: the key stays
  std::optional<float> log_size;  // added to the entry's logit, a log-bias; nothing: it stays
  std::vector<float> value = {};  // [value width]; empty: the sum over `from`
};

/// The decision of a policy for one head at one step. Rows index the cache before eviction.
struct HeadDecision {
  std::vector<std::int32_t> kept;  // rows, ascending; every row where nothing is evicted
  std::vector<float> scores;       // [n], higher = kept; empty if none were needed
  std::vector<Fate> fates;         // [n]; empty where nothing was evicted
  /// The lowest score kept for its score; NaN if none was.
  float threshold = std::numeric_limits<float>::quiet_NaN();
  /// Unprotected entries with a score equal to the threshold, kept or not, if more than one.
  int ties = 0;
  std::vector<float> second_scores;  // [n], of a second stage of selection; else empty
  float second_threshold = std::numeric_limits<float>::quiet_NaN();  // the lowest kept for those
  /// Sum of the quotas of the layer's heads minus the layer's budget; 0 if nothing is evicted.
  int allocation_drift = 0;
  std::vector<Merge> merges;  // a member that is not `into` is not in `kept`
  /// The cosine above which neighbours were merged, given or found; NaN if no sets were looked for.
  double merge_threshold = std::numeric_limits<double>::quiet_NaN();
};

/// A part of a policy has a state outside of this program: a plugin's, a Python process's.
struct CannotCopy : std::runtime_error {
  CannotCopy() : std::runtime_error("this policy's state cannot be copied") {}
};

/// A part of a policy, which can be copied with its state. What it has borrowed (LayerContext) is
/// the copy's, too.
template <typename Kind>
struct PolicyPart {
  using Part = Kind;
  virtual ~PolicyPart() = default;
  /// Throws CannotCopy.
  virtual std::unique_ptr<Kind> copy() const { throw CannotCopy(); }
};

/// `Made`, copied as its class says, where it does.
template <typename Made>
struct Copyable : Made {
  using Made::Made;
  std::unique_ptr<typename Made::Part> copy() const override {
    if constexpr (std::is_copy_constructible_v<Made>) return std::make_unique<Copyable>(*this);
    throw CannotCopy();
  }
};
template <typename Made, typename... Arguments>
std::unique_ptr<Made> make_copyable(Arguments&&... arguments) {
  return std::make_unique<Copyable<Made>>(std::forward<Arguments>(arguments)...);
}

/// The state machine of one layer.
class LayerPolicy : public PolicyPart<LayerPolicy> {
 public:
  /// Call before a step in which entries leave the window: the first counts[h] entries of each
  /// head's cache [Hk] leave. caches: as after the last step. The view of step() then has neither
  /// these entries nor those of its own block that leave as well.
  virtual void forget_first(const std::vector<CacheView>& /*caches*/,
                            std::span<const int> /*counts*/) {}
  /// Updates the accumulators with the step's queries, then decides for every head: result [Hk].
  /// The caller removes the entries that are not in `kept` before the next call. Deterministic.
  /// Throws WorkError, naming layer, head and token, for scores that are not finite.
  virtual std::vector<HeadDecision> step(const StepView& view) = 0;
  /// Whether step() reads CacheView::values; if not, the caller need not gather them.
  virtual bool needs_values() const { return false; }
  /// Whether a decision may contain merges: then the caller holds values and carries out the
  /// merges.
  virtual bool merges() const { return false; }
};

/// Options of a policy object that do not change its decisions.
struct PolicyOptions {
  bool always_score = false;  // fill `scores` even if n <= N
};

/// Builds the policy a spec describes for one layer. Throws UsageError for combinations that make
/// no sense (the spec's own syntax has been checked by parse_policy).
std::unique_ptr<LayerPolicy> make_layer_policy(const PolicySpec& spec, const LayerContext& context,
                                               PolicyOptions options = {});

/// Throws UsageError, naming the part, if a part cannot be combined with the rest.
void check_combination(const PolicySpec& spec);
/// Throws UsageError for a part that names something missing: a head that the model lacks, a token
/// that the sequence lacks (of this many tokens; 0: not known), more tokens than the budget.
void check_limits(const PolicySpec& spec, const ModelInfo& model, int budget, int tokens = 0);

/// A run as far as it is known before it begins.
struct RunShape {
  int prompt_length = 0;  // tokens; 0: not known
  int generated = -1;     // generated tokens after which the policy may act; -1: not known
  int budget = 0;         // entries
};
/// Throws UsageError, naming the part, where a part has no meaning in such a run.
void check_run(const PolicySpec& spec, const RunShape& run);

/// Notes for the user about this spec at this budget (protection exceeds the budget, ...) and for a
/// sequence of this many tokens (0: not known).
std::vector<std::string> policy_notes(const PolicySpec& spec, const ModelInfo& model, int budget,
                                      int tokens = 0);

}  // namespace kvloupe
