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
/// head, any norm; empty: the bounds are NaN. `stage_one` and `stage_two`: disjoint rows, what was
/// chosen before the second stage (protected entries included) and what it chose.
///
/// θ̂ = C − (2 − 1/σ)·Σ_kept A_i‖v_i W_O‖ with C the sum over all i: θ of theorem 3.3 with σ in
/// place of S = Σ_kept A ≥ σ, hence θ ≤ θ̂ whatever σ is; infinite where σ = 0. θ̂_relax: the norms
/// of stage two replaced by M, the least norm of all entries. θ̂ ≤ θ̂_relax needs assumption 3.4, σ >
/// 0.5, without which 2 − 1/σ changes its sign: not given then.
TwoStageBound two_stage_bound(std::span<const double> attention, std::span<const float> norms,
                              std::span<const std::int32_t> stage_one,
                              std::span<const std::int32_t> stage_two);

/// The least number of entries whose attention together exceeds `mass`: those with the highest
/// (CriticalKV appendix A). n where even all do not, as with mass ≥ 1.
int entries_for_mass(std::span<const double> attention, double mass);

}  // namespace kvloupe
