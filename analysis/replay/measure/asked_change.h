#pragma once
// The change that eviction makes for queries that come later: each attends to the entries that its
// head's cache holds when it comes. Heads are added with their signs before a norm is taken, as the
// model adds them.

#include <Eigen/Core>
#include <cstdint>
#include <functional>
#include <limits>
#include <span>
#include <vector>

#include "analysis/policy/kit/policy.h"
#include "analysis/replay/record/layer_states.h"

namespace kvloupe {

/// A query that comes later finds these entries in a head's cache: entries of earlier tokens and
/// those of its own block. Tokens after the query, and those that its window does not reach, are
/// not looked at.
struct FoundEntries {
  std::span<const std::int32_t> tokens;  // ascending
  /// Keys, values and log sizes as the cache holds them; null: those of the trace, none merged.
  const CacheView* merged = nullptr;
};

/// The queries [first, first + count) of those asked, which are in one block, and the entries that
/// they find: a head's caches, one for each replay.
struct AskedBlock {
  std::size_t first = 0, count = 0;
  std::span<const FoundEntries> found;
};

/// The queries of neighbouring tokens [first, first + count), of all query heads one after the
/// other: [Hq·count,d]. If there are few, they take much less memory than all queries of the layer.
struct QueryRows {
  Matrix rows;
  int first = 0, count = 0;
};

/// The change in one head, means over the queries and over the head's query heads. o: attention
/// output of a query head with the full cache, o': with the entries in the cache.
struct AskedHead {
  static constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();
  double kept_attention = kUnknown;  // Σ over the tokens whose entry is there of A_i
  double output_error = kUnknown;  // Σ‖o − o'‖² / Σ‖o‖² over queries and query heads
  double perturbation_l1 = kUnknown;  // ‖(o' − o) W_O‖₁; unknown without output weights
  double bound_l1 = kUnknown;         // θ (CriticalKV theorem 3.3); unknown after merging too
  /// Σ over the queries of ‖Σ over the head's query heads of (o' − o) W_O‖₂².
  double squared_change = kUnknown;
  /// Mean over the queries of the effect on the quantity that AskedLayer was given.
  double effect = kUnknown;
};

/// One layer's part for some queries, in one replay or in several. Sums are kept in double;
/// products are in float32, of differences of attention, so that small changes do not cancel. The
/// numbers of the full cache are computed once for all replays.
class AskedLayer {
 public:
  /// `queries`: tokens, ascending, Q of them. `effects` [Q,D] or empty: the change of a quantity
  /// per change of the residual stream at each query. States, context and queries are borrowed; the
  /// states need keys and values, output weights with their norms where the trace has them, and
  /// queries unless `rows` has those that ask. `context.model.reach()` gives the tokens that a
  /// query sees.
  AskedLayer(const LayerStates& states, const LayerContext& context, std::span<const int> queries,
             const Eigen::MatrixXd* effects = nullptr, std::size_t replays = 1,
             const QueryRows* rows = nullptr);

  /// One head, at blocks that follow one another without a gap in the queries. Add each head and
  /// query exactly once; different heads may be added at the same time. A call multiplies all its
  /// queries together: W_O is widened once, and values are read once.
  void add(int head, std::span<const AskedBlock> blocks);

  /// All queries of the head must have been added.
  AskedHead head(int head, std::size_t replay = 0) const;
  /// The layer's, once all heads were added: Σ over its heads of o W_O and of (o' − o) W_O, [Q,D];
  /// empty without output weights.
  Eigen::MatrixXd output() const;
  Eigen::MatrixXd change(std::size_t replay = 0) const;

 private:
  /// The sums of one head with the full cache.
  struct Whole {
    double norm = 0.0;
    Eigen::MatrixXd output;  // [Q,D], over the head's query heads
  };
  /// The sums of one head in one replay.
  struct Sums {
    double kept = 0.0, error = 0.0, l1 = 0.0, theta = 0.0, effect = 0.0;
    bool merged = false;
    Eigen::MatrixXd change;  // [Q,D], over the head's query heads
  };
  /// A query's logits and attention with the full cache, over the tokens that it sees.
  struct FullRow {
    int query_head = 0;
    int query = 0, seen = 0;        // tokens: the query, and the first that it sees
    std::span<const float> logits;  // [seen]
    std::vector<double> full;       // [seen]
    std::span<const float> asked;   // [d]
  };
  /// [d] of a query head at one of the tokens that ask.
  std::span<const float> asking(std::size_t query_head, int query) const;
  /// The entries that each of some consecutive queries finds, one span for each replay.
  using FoundByRow = std::vector<std::span<const FoundEntries>>;
  /// All query heads of a head, at the queries [first, first + found.size()). `weight_of`: W_O of
  /// the i-th of them, or null; good until it is asked for the next.
  void add_tile(int head, std::size_t first, const FoundByRow& found,
                const std::function<const Matrix*(std::size_t)>& weight_of);
  /// The same in one replay: o' − o of the rows [G·rows,d]. `full`: their attention, over the
  /// tokens that any of them sees.
  Matrix changes_of(int head, std::span<const FullRow> asked, const Matrix& full,
                    const FoundByRow& found, std::size_t replay, Sums& sums) const;
  /// Σ over the evicted of A_i‖v_i W_O‖ + (1 − S) Σ over the kept of A'_i‖v_i W_O‖.
  double bound_of(int query_head, const FullRow& asked, std::span<const std::int32_t> kept,
                  const std::vector<double>& cut, double mass) const;
  /// o' − o of one query whose cache holds merged entries, the rows [first, …) of `held`: [d].
  Eigen::RowVectorXf merged_change(int query_head, const FullRow& asked, const CacheView& held,
                                   Eigen::Index first, Eigen::Index count) const;
  /// Rows of outputs, or of their changes, times the query's gate.
  void multiply_by_gate(std::span<const FullRow> asked, Matrix& outputs) const;
  /// ‖(g ⊙ v_i) W_O‖₁ of the tokens that the query sees: [seen].
  std::vector<float> gated_norms(int query_head, const FullRow& asked) const;
  Sums& sums_of(std::size_t replay, std::size_t head) {
    return sums_[replay * whole_.size() + head];
  }

  const LayerStates& states_;
  const LayerContext& context_;
  std::span<const int> queries_;
  const Eigen::MatrixXd* effects_;
  const QueryRows* rows_;
  std::vector<Whole> whole_;  // [Hk]
  std::vector<Sums> sums_;    // [replays] of [Hk]
};

}  // namespace kvloupe
