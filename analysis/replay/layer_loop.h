#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>

#include "analysis/policy/kit/policy.h"
#include "analysis/replay/layer_replay.h"
#include "analysis/replay/record/layer_states.h"

namespace kvloupe {

/// How work on many layers is shared out. Results do not depend on it.
struct LayerLoop {
  int threads = 0;          // 0: all cores
  bool background = false;  // other loops that run at the same time come first
  int first = -1;           // this one before the others, with all cores; -1: none
  int most_at_once = 0;     // so many layers at the same time, on all cores; 0: any number
};

/// How many layers may be held at the same time that take so many bytes each: any number of small
/// ones (0), of larger ones as many as take a gigabyte, and always one.
int layers_at_once(std::size_t layer_bytes, std::size_t most_layer_bytes);

/// Runs body(0) … body(count − 1) in parallel; `heads` is how a body does the same with its heads.
/// OpenBLAS has one thread meanwhile.
void for_layers(std::size_t count, const LayerLoop& loop,
                const std::function<void(std::size_t index, const HeadLoop& heads)>& body);

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
