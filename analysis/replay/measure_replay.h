#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "analysis/base/core/progress.h"
#include "analysis/replay/record/head_states.h"
#include "analysis/replay/record/records.h"
#include "analysis/trace/trace.h"

namespace kvloupe {

class LayerStatesCache;  // record/layer_states.h
class SharedMeasures;    // measure/shared_measures.h

/// A request to measure a replay that is there.
struct MeasureRequest {
  std::vector<std::string> measures = {};  // names
  /// For those with a value per step; all where it is empty, or where one is made of all.
  std::vector<int> steps = {};
  std::vector<int> layers = {};  // empty: all of the replay
  int head = -1;                 // of each layer; -1: all
  bool summary = false;          // only what measure_of() reads, of these steps

  // How, not what: results do not depend on these.
  bool background = false;
  LayerStatesCache* states = nullptr;
  SharedMeasures* shared = nullptr;  // with other replays of the trace
  int threads = 0;                   // 0: all cores
  /// If a layer's states take more bytes, one head's at a time are read and not kept.
  std::size_t most_layer_bytes = kLargeLayer;
};

/// The replay's heads that are asked for, with the values of the measures asked for and of no
/// others; measure_at() and measure_of() read them. The values equal those of a replay with
/// metrics. Most measures need only a head's retained tokens and their captured states, so nothing
/// is replayed. If entries were merged, or a measure uses the policy's scores, the layer is
/// replayed up to the last step asked for. `replay` must be of this trace. `on_layer` is called
/// (from a worker thread, never two at once) as each layer is done; progress counts layers. Throws
/// UsageError for an unknown measure and for a step that the replay lacks, and what replay()
/// throws.
Replay measure_replay(const Trace& trace, const Replay& replay, const MeasureRequest& request,
                      Progress& progress,
                      const std::function<void(const std::vector<HeadReplay>&)>& on_layer = {});

}  // namespace kvloupe
