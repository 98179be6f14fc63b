#pragma once

#include <span>
#include <string>
#include <vector>

#include "analysis/progress.h"
#include "analysis/replay/layer_states.h"
#include "analysis/replay/replay.h"

namespace kvloupe {

/// All inputs of one layer's replay, in memory.
struct LayerReplayInput {
  const LayerStates& states;
  const std::vector<Block>& blocks;
  const PolicySpec& policy;
  LayerContext context;  // layer, model, attention scale, budget, loop over heads
  bool metrics = true;
  int scores_head = -1;                        // keep scores and fates of this head
  std::span<const std::string> measures = {};  // expensive ones to compute too, by name
};

/// Runs the policy over the states of one layer, step by step: result [Hk]. Advances the progress
/// by one per step.
std::vector<HeadReplay> replay_layer(const LayerReplayInput& input, Progress& progress);

}  // namespace kvloupe
