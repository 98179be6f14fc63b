#pragma once

#include <cstdint>
#include <span>

namespace kvloupe {

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
