#include "analysis/replay/layer_states.h"

#include <algorithm>
#include <utility>

namespace kvloupe {

std::size_t LayerStates::bytes() const {
  std::size_t floats = 0;
  for (const auto* matrices : {&keys, &queries, &values, &output_weights}) {
    for (const Matrix& matrix : *matrices) floats += static_cast<std::size_t>(matrix.size());
  }
  for (const auto* norms : {&value_norms_l1, &value_norms_l2}) {
    for (const auto& values_of_head : *norms) floats += values_of_head.size();
  }
  return floats * sizeof(float);
}

LayerStates load_layer_states(const Trace& trace, int layer) {
  LayerStates states;
  for (int head = 0; head < trace.model().num_kv_heads; ++head) {
    states.keys.push_back(trace.key(layer, head));
    states.values.push_back(trace.value(layer, head));
  }
  for (int query_head = 0; query_head < trace.model().num_heads; ++query_head) {
    states.queries.push_back(trace.query(layer, query_head));
    if (auto weight = trace.output_weight(layer, query_head)) {
      states.output_weights.push_back(std::move(*weight));
      states.value_norms_l1.push_back(trace.value_out_norm(layer, query_head, Norm::l1));
      states.value_norms_l2.push_back(trace.value_out_norm(layer, query_head, Norm::l2));
    }
  }
  return states;
}

std::shared_ptr<const LayerStates> LayerStatesCache::find(const std::string& key) {
  const auto found = std::find_if(entries_.begin(), entries_.end(),
                                  [&](const Entry& entry) { return entry.key == key; });
  if (found == entries_.end()) return nullptr;
  entries_.splice(entries_.begin(), entries_, found);
  return entries_.front().states;
}

std::shared_ptr<const LayerStates> LayerStatesCache::get(const Trace& trace, int layer) {
  const std::string key =
      trace.path().string() + '\n' + trace.identity() + '\n' + std::to_string(layer);
  {
    const std::lock_guard lock(mutex_);
    if (auto states = find(key)) return states;
  }
  auto states = std::make_shared<const LayerStates>(load_layer_states(trace, layer));
  const std::lock_guard lock(mutex_);
  if (auto other = find(key)) return other;  // another thread was faster
  entries_.push_front({key, states->bytes(), states});
  bytes_ += entries_.front().bytes;
  make_room();
  return states;
}

void LayerStatesCache::make_room() {
  while (bytes_ > most_bytes_ && entries_.size() > 1) {
    bytes_ -= entries_.back().bytes;
    entries_.pop_back();
  }
}

void LayerStatesCache::limit(std::size_t most_bytes) {
  const std::lock_guard lock(mutex_);
  most_bytes_ = most_bytes;
  make_room();
}

std::size_t LayerStatesCache::bytes() const {
  const std::lock_guard lock(mutex_);
  return bytes_;
}

}  // namespace kvloupe
