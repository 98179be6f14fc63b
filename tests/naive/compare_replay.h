#pragma once

#include <string>

#include "analysis/replay/record/layer_states.h"
#include "analysis/replay/replay.h"
#include "tests/naive/naive_replay.h"

namespace kvloupe::naive {

/// The result of a comparison of a replay with its naive twin.
struct Comparison {
  long decisions = 0;   // evictions and survivals at steps where something was evicted
  long near_ties = 0;   // decided differently, where the naive scores are within the tolerance
  std::string failure;  // the first disagreement that is none, or empty
};

/// Relative to the largest score: float32 rounding of a sum over some hundred entries.
inline constexpr double kScoreTolerance = 5e-6;

/// Compares retained sets at every step and, where `fast` has them, metrics; one layer. A different
/// decision is a near tie only where every token concerned has a naive score within the tolerance
/// of the naive threshold; the naive replay then goes on from the fast one's set.
Comparison compare(const Replay& fast, int layer, const LayerStates& states, const ModelInfo& model,
                   const LayerAttention& attention, const KnownLayer* known = nullptr,
                   int prompt_length = 0, const std::vector<char>& structural = {},
                   const NaivePass* pass = nullptr);

}  // namespace kvloupe::naive
