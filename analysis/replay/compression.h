#pragma once

#include <vector>

#include "analysis/replay/replay.h"

namespace kvloupe {

/// The share of the seen tokens that a layer still holds (KVMerger, figure 3b).
struct LayerCompression {
  int layer = 0;
  double mean = 0.0;               // over its heads
  double least = 0.0, most = 0.0;  // of its heads
};

/// Entries after the step ÷ tokens seen so far, without tokens that no later query sees, for each
/// layer of the replay, in its order. 1 if no token is left (a window of one token). Throws
/// std::out_of_range for a step that the replay does not have.
std::vector<LayerCompression> layer_compression(const Replay& replay, int step);

}  // namespace kvloupe
