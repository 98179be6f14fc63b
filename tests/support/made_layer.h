#pragma once

#include "analysis/replay/record/layer_states.h"
#include "tests/support/synthetic_trace.h"

namespace kvloupe::test {

/// One layer of made-up states as the replay reads it, value norms included.
LayerStates made_layer(const SyntheticStates& states, int layer);

/// A made-up output gate of one query head [T,d]: numbers between 0 and 1, others for each head.
Matrix made_gate(int tokens, int width, int query_head);

}  // namespace kvloupe::test
