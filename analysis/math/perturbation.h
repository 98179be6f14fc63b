#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "analysis/base/core/matrix.h"
#include "analysis/math/numeric/logit_rule.h"
#include "analysis/trace/output_weight.h"

namespace kvloupe {

/// For the step's last query and one query head, compared with the whole captured prefix
/// (CriticalKV §3).
struct QueryHeadMetrics {
  double retained_mass = 0.0;  // S = Σ_kept A; for a merged entry, the part of its own token
  double perturbation_l1 = 0.0;  // ℒ = ‖((A − A')V)W_O‖₁; NaN if the trace has no output weights
  double bound_l1 = 0.0;         // θ, thm 3.3
  double perturbation_l2 = 0.0;  // the same with L2 norms throughout
  double bound_l2 = 0.0;
  double head_error_l2 = 0.0;  // ‖(A − A')V‖₂, before W_O (CAOTE's space)
};

/// Softmax of logits [n] and a sink logit that takes its share (LogitRule), in double: [n].
std::vector<double> softmax(std::span<const float> logits, double sink = LogitRule::kNoSink);
/// The share that the sink takes of it.
double sink_share(std::span<const float> logits, double sink);

/// A' [kept]: attention [n] = softmax(logits, sink) renormalised over `kept` (rows of it, not
/// empty), which have the mass S = `kept_mass`, the sink's share included. From their own logits
/// where S is so small that shares of it would lose digits.
std::vector<double> renormalised(std::span<const float> logits, std::span<const double> attention,
                                 std::span<const std::int32_t> kept, double kept_mass, double sink);

/// How much one query's output changes when only some entries are kept, for one query head.
///
/// A = softmax of `logits` [n] (scaled, over the whole prefix), A' = the same renormalised over
/// `kept` (rows of the prefix, ascending, not empty), both from the log-sum-exp of their own
/// logits, so that A' stays exact when S is tiny. `values` [n,d]. `output_weight` [d,D] and
/// `value_norms_l1`, `_l2` [n] = ‖v_i W_O‖ of this query head (Trace::value_out_norm); with empty
/// values or norms or a null weight the fields that need them are NaN. Accumulates in double. θ = C
/// − (2 − 1/S)·Σ_kept A_i‖v_i W_O‖ with C the sum over all i (CriticalKV, theorem 3.3), computed as
/// Σ_evicted A_i‖·‖ + (1 − S)·Σ_kept A'_i‖·‖ with 1 − S = Σ_evicted A_i. In this form nothing
/// cancels, and ℒ and θ are exactly 0 if the evicted entries had no attention. A sink logit counts
/// as an entry of value 0 that is always kept: it is a part of S and of no other sum.
QueryHeadMetrics output_perturbation(std::span<const float> logits,
                                     std::span<const std::int32_t> kept, const MatrixView& values,
                                     const OutputWeight* output_weight,
                                     std::span<const float> value_norms_l1,
                                     std::span<const float> value_norms_l2,
                                     double sink = LogitRule::kNoSink);
/// The same where softmax(logits, sink) [n] is known. `output` [d] = A V, if that is known, too:
/// only the kept entries are then summed, unless hardly anything is evicted.
QueryHeadMetrics output_perturbation(std::span<const float> logits,
                                     std::span<const double> attention,
                                     std::span<const std::int32_t> kept, const MatrixView& values,
                                     const OutputWeight* output_weight,
                                     std::span<const float> value_norms_l1,
                                     std::span<const float> value_norms_l2, double sink,
                                     std::span<const double> output = {});

/// The same for a cache with merged entries: the output of the cache, softmax of `cache_logits` [N]
/// (scaled, log sizes added) over `cache_values` [N,d], compared with the output of the whole
/// prefix. `kept` [N] are the tokens of the entries; `logits`, `values`, `output_weight` as above.
/// θ is not a bound here and is NaN.
QueryHeadMetrics merged_perturbation(std::span<const float> logits,
                                     std::span<const std::int32_t> kept, const MatrixView& values,
                                     std::span<const float> cache_logits,
                                     const MatrixView& cache_values,
                                     const OutputWeight* output_weight,
                                     double sink = LogitRule::kNoSink);

/// How far the output moves when a whole set S of entries is evicted at once and the rest is
/// renormalised: ‖Σ_S h_j(o − v_j)‖₂ / (1 − Σ_S h_j), o = Σ h_i v_i (CAOTE appendix A scores the
/// entries of S one by one instead). Computed without cancellation as Σ_S h · ‖v̄_S − v̄_rest‖ with
/// the h-weighted means of both sets. `attention` h [n], not negative; their
/// sum with the share of a sink logit is 1; `values` [n,d];
/// `evicted` rows, without repetition. 0 if the evicted entries have no weight; infinite if the
/// kept entries have no weight.
double joint_eviction_error(std::span<const double> attention, const MatrixView& values,
                            std::span<const std::int32_t> evicted, double sink_share = 0.0);

}  // namespace kvloupe
