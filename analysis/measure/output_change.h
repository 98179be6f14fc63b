#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "analysis/record/layer_states.h"
#include "analysis/trace/layer_attention.h"
#include "analysis/trace/model_info.h"

namespace kvloupe {

/// How an eviction changes a layer's attention output after W_O, for one query: o'W_O − oW_O summed
/// over all query heads [D]. o is over all entries of the captured prefix 0 … query_token that the
/// query sees, o' over the `retained` tokens of each head. `retained` [Hk]: ascending, not empty,
/// all seen by the query (model.reach()). Needs states.output_weights. Entries must not be
/// merged. In double.
Eigen::VectorXd output_change(const LayerStates& states, const ModelInfo& model,
                              const LayerAttention& attention,
                              std::span<const std::vector<std::int32_t>> retained, int query_token);

}  // namespace kvloupe
