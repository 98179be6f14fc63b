#pragma once

#include <cstddef>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "analysis/matrix.h"
#include "analysis/trace/trace.h"

namespace kvloupe {

/// One layer's states in memory, as stored. Without attention or metrics only the keys are needed;
/// then the rest is empty.
struct LayerStates {
  std::vector<Matrix> keys;            // [Hk] of [T,d]
  std::vector<Matrix> queries;         // [Hq] of [T,d]
  std::vector<Matrix> values;          // [Hk] of [T,d]
  std::vector<Matrix> output_weights;  // [Hq] of [d,D]; empty if the trace has none
  std::vector<std::vector<float>> value_norms_l1, value_norms_l2;  // [Hq] of [T]; as above

  std::size_t bytes() const;
};

LayerStates load_layer_states(const Trace& trace, int layer);

/// Layers already read, of any trace, up to a number of bytes; the least recently used are dropped
/// first. Thread-safe; may outlive the traces.
class LayerStatesCache {
 public:
  explicit LayerStatesCache(std::size_t most_bytes) : most_bytes_(most_bytes) {}
  std::shared_ptr<const LayerStates> get(const Trace& trace, int layer);
  /// Another number of bytes from now on; the one used last stays, however large.
  void limit(std::size_t most_bytes);
  /// What is kept now.
  std::size_t bytes() const;

 private:
  struct Entry {
    std::string key;
    std::size_t bytes = 0;
    std::shared_ptr<const LayerStates> states;
  };
  std::shared_ptr<const LayerStates> find(const std::string& key);
  void make_room();

  std::size_t most_bytes_;
  mutable std::mutex mutex_;
  std::list<Entry> entries_;  // most recently used first
  std::size_t bytes_ = 0;
};

}  // namespace kvloupe
