#pragma once

#include <cstdint>
#include <span>

#include "analysis/base/core/matrix.h"

namespace kvloupe {

/// Bounds on the angle between one key k* and the query q that follow from the attention weight w
/// of k* (KeyDiff, theorem C.1). Keys are first scaled by ‖q‖·scale, so that q has length one and
/// k·q is the logit.
struct AttentionAlignment {
  double weight = 0.0;              // w
  double cosine = 0.0;              // cos(k*, q)
  double squared_norm_limit = 0.0;  // M = max(1, max‖k_i‖²) over all scaled keys, k* included
  /// (log(n/(n+1)) − log(1−w))/(2M) − 1, n the number of other keys: theorem C.1 as printed. Never
  /// positive; its proof swaps a sign where cos(k*,q) < 0, so there it can lie above the cosine.
  double paper_bound = 0.0;
  /// (log(w/(1−w)) + log n + mean of the other k_i·q)/‖k*‖. Always at most the cosine: by Jensen
  /// Σ exp(k_i·q) >= n·exp(mean).
  double jensen_bound = 0.0;
};

/// query [d], keys [n+1,d] that it sees, `star` the row of k*. Bounds are NaN without other keys,
/// or for a zero query; the second one also for a zero k*. O(n·d), double. Throws std::out_of_range
/// for a row that does not exist.
AttentionAlignment attention_alignment(std::span<const float> query, const MatrixView& keys,
                                       double scale, Eigen::Index star);

/// The row that receives most of the query's attention; among equal rows the last. −1 without keys.
Eigen::Index strongest_key(std::span<const float> query, const MatrixView& keys);

/// How far a key k* that is close to a query q is from the mean key k̄ that is not close to q
/// (KeyDiff, theorem C.3).
struct MeanKeyAlignment {
  double alpha = 0.0;        // cos(k̄, q)
  double beta = 0.0;         // cos(k*, q)
  double measured = 0.0;     // cos(k̄, k*)
  double paper_bound = 0.0;  // 1 − (α − β)²/2, printed as 1 + αβ − α²/2 − β²/2
  /// cos(arccos α − arccos β), the spherical triangle: at least `measured`, at most `paper_bound`.
  double tight_bound = 0.0;
};

/// query [d], keys [n,d] that it sees, `star` the row of k*; k̄ is the mean of all n keys. O(n·d).
/// Throws std::out_of_range for a row that does not exist.
MeanKeyAlignment mean_key_alignment(std::span<const float> query, const MatrixView& keys,
                                    Eigen::Index star);

/// CriticalKV's bounds of the output perturbation when entries are selected in two stages.
struct TwoStageBound {
  double mass = 0.0;     // σ = Σ_stage1 A
  double bound = 0.0;    // θ̂, theorem 3.5
  double relaxed = 0.0;  // θ̂_relax, theorem E.1; NaN where σ ≤ 0.5
};

/// `attention` [n]: A, one softmax row over all entries. `norms` [n] = ‖v_i W_O‖ of the same query
/// head, any norm; if empty, the bounds are NaN. `stage_one` and `stage_two`: disjoint rows, those
/// chosen before the second stage (including protected entries) and those chosen by it.
///
/// θ̂ = C − (2 − 1/σ)·Σ_kept A_i‖v_i W_O‖ with C the sum over all i: θ of theorem 3.3 with σ in
/// place of S = Σ_kept A ≥ σ, hence θ ≤ θ̂ for every σ; infinite if σ = 0. θ̂_relax: the norms of
/// stage two replaced by M, the smallest norm of all entries. θ̂ ≤ θ̂_relax needs assumption 3.4, σ
/// > 0.5; without it 2 − 1/σ changes its sign, and θ̂_relax is NaN. The share of a sink logit is a
/// part of σ: an entry of value 0 that always stays.
TwoStageBound two_stage_bound(std::span<const double> attention, std::span<const float> norms,
                              std::span<const std::int32_t> stage_one,
                              std::span<const std::int32_t> stage_two, double sink_share = 0.0);

/// The smallest number of entries, highest attention first, whose attention together exceeds `mass`
/// (CriticalKV appendix A). n if all entries together do not, as with mass ≥ 1.
int entries_for_mass(std::span<const double> attention, double mass);

/// ℒ/θ: how tight the bound is; 1 if it is exact. NaN if it is undefined: if θ is 0 because no
/// evicted entry had attention, if θ is so small that its terms have lost their digits, or if there
/// is no bound (a merged cache). output_perturbation() computes both without cancellation, so no
/// threshold relative to the norms is needed: θ is never only rounding error.
double tightness(double perturbation, double bound);

}  // namespace kvloupe
