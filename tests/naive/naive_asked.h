#pragma once
// The effect of eviction on later queries, in plain double loops that read like the formulas.

#include <vector>

#include "analysis/replay/record/layer_states.h"
#include "analysis/replay/replay.h"
#include "analysis/trace/layer_attention.h"
#include "analysis/trace/model_info.h"

namespace kvloupe::naive {

/// Measures of one head; means over the queries and the head's query heads.
struct NaiveAsked {
  double kept = 0.0, l1 = 0.0, theta = 0.0;
  double error = 0.0, norm = 0.0;                   // Σ‖o − o'‖², Σ‖o‖²
  std::vector<std::vector<double>> output, change;  // [Q][D], sums over the query heads
};

/// One layer: [Hk]. The policy runs in double precision and goes on from the sets that `fast` has.
std::vector<NaiveAsked> asked(const LayerStates& states, const ModelInfo& model,
                              const LayerAttention& attention, int layer, const Replay& fast,
                              const std::vector<int>& queries);

/// √(Σ change² / Σ output²) of sums over heads and layers: every entry of `parts` is added first.
double relative_change(const std::vector<const NaiveAsked*>& parts);

}  // namespace kvloupe::naive
