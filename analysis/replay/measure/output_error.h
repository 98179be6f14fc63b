#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "analysis/replay/record/layer_states.h"
#include "analysis/replay/record/records.h"
#include "analysis/trace/layer_attention.h"
#include "analysis/trace/model_info.h"

namespace kvloupe {

/// Sums over queries and query heads, before W_O; those of several heads may be added.
struct SquaredError {
  double error = 0.0;   // Σ‖o − o′‖²
  double output = 0.0;  // Σ‖o‖²
  /// error / output, the normalised output error (ours); NaN where there is no output.
  double share() const;
};

/// Over the last queries of the steps from the first eviction on (without one: of the last step).
/// Zero without metrics.
SquaredError squared_error(const HeadReplay& head);
/// The same from a step on.
SquaredError squared_error(const HeadReplay& head, std::size_t first_step);

/// How an eviction changes a layer's attention output after W_O, for one query: o'W_O − oW_O summed
/// over all query heads [D]. o is over all entries of the captured prefix 0 … query_token that the
/// query sees, o' over the `retained` tokens of each head. `retained` [Hk]: ascending, not empty,
/// all seen by the query (model.reach()). Needs states.output_weights. Entries must not be
/// merged. In double.
Eigen::VectorXd output_change(const LayerStates& states, const ModelInfo& model,
                              const LayerAttention& attention,
                              std::span<const std::vector<std::int32_t>> retained, int query_token);

}  // namespace kvloupe
