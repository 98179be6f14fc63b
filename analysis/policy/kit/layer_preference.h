#pragma once

#include "analysis/policy/kit/sequence_tables.h"
#include "analysis/policy/policy_catalog.h"

namespace kvloupe {

/// The budget of a layer by weights that all layers of the sequence give (layer_share): `number` of
/// each layer, from the full cache of the prompt; `base` entries each before the weights count.
LayerBudgetBuilder layer_preference(
    std::function<double(const SequenceTables&, const SpecPart&, int layer)> number,
    std::function<double(const SpecPart&, int budget)> base);

/// The parameter `window` of such a part.
ParameterInfo vote_window(int queries);

}  // namespace kvloupe
