#pragma once

#include <span>

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

/// How many entries per head layer `layer` may hold when all layers together hold L times `budget`
/// (L = weights.size()): each layer gets `base` entries, the rest is shared out in proportion to
/// the weights. No layer gets more than `most`; what a layer cannot use is shared evenly by the
/// others. Whole numbers by largest remainder (of equals the lower layer), so that the sum is
/// exact, but for a layer that would get nothing and gets 1. `budget` if it is at least `most`, or
/// if all weights are 0.
int layer_share(std::span<const double> weights, int layer, int budget, double base, int most);

}  // namespace kvloupe
