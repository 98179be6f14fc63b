#pragma once

#include "analysis/record/layer_states.h"
#include "tests/support/synthetic_trace.h"

namespace kvloupe::test {

/// One layer of made-up states as the replay reads it, value norms included.
LayerStates made_layer(const SyntheticStates& states, int layer);

}  // namespace kvloupe::test
