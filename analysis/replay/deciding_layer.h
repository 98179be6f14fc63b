#pragma once

#include <memory>
#include <optional>

#include "analysis/record/layer_states.h"
#include "analysis/replay/layer_replay.h"

namespace kvloupe {

/// The layer that decides for one that reads another layer's cache, with its states; nothing for a
/// layer that has its own cache.
class DecidingLayer {
 public:
  /// `context`: of `layer`; the decider gets its budget, loop, tables and progress. Throws as
  /// Trace.
  DecidingLayer(const Trace& trace, int layer, LayerStatesCache* cache, const LayerContext& context,
                Progress& progress);
  /// Null where the layer decides itself.
  const LayerDecider* get() const { return decider_ ? &*decider_ : nullptr; }

 private:
  std::shared_ptr<const LayerStates> states_;
  std::optional<LayerDecider> decider_;
};

}  // namespace kvloupe
