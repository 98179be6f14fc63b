#pragma once

#include <cstdint>
#include <span>

#include "analysis/matrix.h"

namespace kvloupe {

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
