#pragma once

#include <span>

#include "analysis/policy/kit/policy_catalog.h"
#include "analysis/policy/kit/sequence_tables.h"

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

/// Entries per head that layer `layer` of `layers` holds when `budget` is the mean over the layers
/// and `seen` tokens were processed (PyramidKV): max − l(max − min)/(L − 1), rounded half to even,
/// at least 1; min = N/β, max = 2N − min; where max > n − w: max = n − w, min = 2N − max. Over all
/// layers the sum is L·N exactly, except where the 1 raises it. N where n ≤ N, where there is one
/// layer, or where min < w or max < N. w: kvpress's window of the score.
int pyramid_budget(int layer, int layers, int budget, double beta, int seen, int window = 0);

}  // namespace kvloupe
