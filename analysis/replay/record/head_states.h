#pragma once

#include <cstddef>
#include <memory>

#include "analysis/replay/record/layer_states.h"

namespace kvloupe {

/// A layer whose states take more than this many bytes is not held whole if a part of it suffices:
/// a replay reads it block by block (state_rows.h), measures read it head by head.
inline constexpr std::size_t kLargeLayer = std::size_t{128} << 20U;

/// The approximate memory of the states of all heads of a layer.
std::size_t layer_bytes(const Trace& trace, const StateParts& parts);

/// As load_layer_states(), of one key-value head and its query heads; the other heads' are empty.
LayerStates load_head_states(const Trace& trace, int layer, int head, const StateParts& parts,
                             Progress& progress);

/// A layer's states for work that takes one head at a time. They are held whole, or, where they
/// take more than `most_bytes`, each head's are read when it is asked for and not kept.
/// Thread-safe; the trace and the progress must outlive this.
class HeadStates {
 public:
  HeadStates(LayerStatesCache* cache, const Trace& trace, int layer, const StateParts& parts,
             std::size_t most_bytes, Progress& progress);
  /// The returned states may have other heads too.
  std::shared_ptr<const LayerStates> of(int head) const;
  /// The queries of one token: [Hq,d].
  Matrix queries_of_token(int token) const;

 private:
  const Trace& trace_;
  int layer_;
  StateParts parts_;
  Progress& progress_;
  std::shared_ptr<const LayerStates> held_;  // null: read head by head
};

}  // namespace kvloupe
