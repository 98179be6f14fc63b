#pragma once

#include <span>

namespace kvloupe {

/// How many entries per head layer `layer` may hold when all layers together hold L times `budget`
/// (L = weights.size()): each layer gets `base` entries, the rest is shared out in proportion to
/// the weights. No layer gets more than `most`; the others share evenly the places that a layer
/// cannot use. The numbers are whole by largest remainder (of equals the lower layer), so that the
/// sum is exact, except that a layer that would get nothing gets 1. `budget` if it is at least
/// `most`, or if all weights are 0.
int layer_share(std::span<const double> weights, int layer, int budget, double base, int most);

}  // namespace kvloupe
