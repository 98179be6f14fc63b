#pragma once

#include <functional>
#include <limits>
#include <span>
#include <vector>

#include "analysis/base/core/progress.h"
#include "analysis/replay/cache/head_cache.h"
#include "analysis/replay/measure/measure_catalog.h"
#include "analysis/replay/record/layer_states.h"
#include "analysis/replay/record/records.h"

namespace kvloupe {

class StateRows;  // record/state_rows.h

/// The layer that decides for one that reads its cache.
struct LayerDecider {
  const LayerStates& states;  // its queries, and the keys and values of both
  StateRows* rows = nullptr;  // as LayerReplayInput::rows
  LayerContext context;
};

/// As the head, or the layer, whose scores are kept: all of them.
inline constexpr int kEveryHead = -2;

/// All inputs of one layer's replay.
struct LayerReplayInput {
  const LayerStates& states;  // without keys, queries and values where `rows` has them
  const std::vector<Block>& blocks;
  const PolicySpec& policy;
  LayerContext context;  // layer, model, attention scale, budget, loop over heads
  bool metrics = true;
  int scores_head = -1;  // keep scores and fates of this head; -1: of none; kEveryHead
  MeasureChoice measures = {};
  std::span<const int> followed = {};                // tokens whose losses are kept; ascending
  const RoleTokens* tokens = nullptr;                // for measures of the trace that need them
  std::span<const int> measured_steps = {};          // ascending; empty: all
  bool measured_trace = true;                        // also measure what is of the trace alone
  int last_step = -1;                                // what comes after it is left out; -1: nothing
  int acts_until = std::numeric_limits<int>::max();  // Replay::acts_until
  /// The source of states block by block; null: `states`. Then nothing can be measured, and no
  /// policy sees the future.
  StateRows* rows = nullptr;
  SharedMeasures* shared = nullptr;  // with other replays of the trace
  /// Called with each head's cache as the step's queries find it, before its eviction is carried
  /// out; different heads at the same time.
  const std::function<void(int head, int step, const HeadCache&)>* on_found = nullptr;
  const LayerDecider* decider = nullptr;  // null: the layer decides itself
};

/// Runs the policy over the states of one layer, step by step: result [Hk]. Advances the progress
/// by one per step.
std::vector<HeadReplay> replay_layer(const LayerReplayInput& input, Progress& progress);

}  // namespace kvloupe
