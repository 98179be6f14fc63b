#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "analysis/record/layer_states.h"
#include "analysis/trace/model_info.h"

namespace kvloupe {

/// What an eviction does to a layer's attention output after W_O, for one query: o'W_O − oW_O
/// summed over all query heads [D]; o over all that the query sees of the captured prefix 0 …
/// query_token, o' over the tokens of each head that it has. `retained` [Hk], ascending, none
/// empty, all of them seen by the query (model.sliding_window). Needs states.output_weights;
/// entries must be their tokens' own (no merging). In double.
Eigen::VectorXd output_change(const LayerStates& states, const ModelInfo& model,
                              double attention_scale,
                              std::span<const std::vector<std::int32_t>> retained, int query_token);

}  // namespace kvloupe
