#include "analysis/replay/record/layer_states.h"

#include <algorithm>
#include <utility>

#include "analysis/math/attention.h"

namespace kvloupe {

std::size_t LayerStates::bytes() const {
  std::size_t floats = 0;
  for (const auto* matrices : {&keys, &queries, &values, &gates}) {
    for (const Matrix& matrix : *matrices) floats += static_cast<std::size_t>(matrix.size());
  }
  for (const auto* lists : {&value_norms_l1, &value_norms_l2, &logsumexp}) {
    for (const auto& values_of_head : *lists) floats += values_of_head.size();
  }
  std::size_t bytes = floats * sizeof(float);
  for (const OutputWeight& weight : output_weights) bytes += weight.bytes();
  return bytes;
}

StateParts StateParts::with(const StateParts& other) const {
  return {queries || other.queries, values || other.values, output_weights || other.output_weights,
          value_norms || other.value_norms, logsumexp || other.logsumexp};
}

bool StateParts::cover(const StateParts& other) const {
  return (queries || !other.queries) && (values || !other.values) &&
         (output_weights || !other.output_weights) && (value_norms || !other.value_norms) &&
         (logsumexp || !other.logsumexp);
}

LayerStates load_layer_states(const Trace& trace, int layer, const StateParts& parts) {
  Progress progress;
  return load_layer_states(trace, layer, parts, progress);
}

std::span<const float> LayerStates::gate(int query_head, int token) const {
  if (gates.empty()) return {};
  const auto row = gates[static_cast<std::size_t>(query_head)].row(token);
  return {row.data(), static_cast<std::size_t>(row.size())};
}

StateParts with_gate(const Trace& trace, int layer, StateParts parts) {
  if (!trace.has_gate(layer) || !(parts.value_norms || parts.output_weights)) return parts;
  parts.values = parts.output_weights = true;
  return parts;
}

std::vector<Matrix> gates_of(const Trace& trace, int layer) {
  if (!trace.has_gate(layer)) return {};
  const Matrix all = trace.gate(layer);
  const ModelInfo& model = trace.layer_model(layer);
  std::vector<Matrix> gates;
  for (int query_head = 0; query_head < model.num_heads; ++query_head) {
    gates.emplace_back(all.middleCols(query_head * model.value_width(), model.value_width()));
  }
  return gates;
}

LayerStates load_layer_states(const Trace& trace, int layer, const StateParts& asked,
                              Progress& progress) {
  const StateParts parts = with_gate(trace, layer, asked);
  LayerStates states;
  if (parts.values) states.gates = gates_of(trace, layer);
  for (int head = 0; head < trace.layer_model(layer).num_kv_heads; ++head) {
    progress.check();
    states.keys.push_back(trace.key(layer, head));
    if (parts.values) states.values.push_back(trace.value(layer, head));
  }
  for (int query_head = 0; query_head < trace.layer_model(layer).num_heads; ++query_head) {
    progress.check();
    if (parts.queries) states.queries.push_back(trace.query(layer, query_head));
    if (parts.output_weights) {
      if (auto weight = trace.output_weight(layer, query_head)) {
        states.output_weights.push_back(std::move(*weight));
      }
    }
    if (parts.value_norms && trace.has_output_weight()) {
      states.value_norms_l1.push_back(trace.value_out_norm(layer, query_head, Norm::l1));
      states.value_norms_l2.push_back(trace.value_out_norm(layer, query_head, Norm::l2));
    }
    if (parts.logsumexp) {
      const int head = trace.layer_model(layer).head_of(query_head);
      const Matrix& keys = states.keys[static_cast<std::size_t>(head)];
      const Matrix own = parts.queries ? Matrix() : trace.query(layer, query_head);
      const Matrix& queries = parts.queries ? states.queries.back() : own;
      states.logsumexp.push_back(
          trusted_logsumexp(trace.attention_logsumexp(layer, query_head), view(queries), view(keys),
                            trace.attention(layer).of(query_head), trace.reach(layer), progress));
    }
  }
  return states;
}

Matrix queries_of_token(const Trace& trace, const LayerStates& states, int layer, int token) {
  if (states.queries.empty()) return trace.queries_of_token(layer, token);
  return token_rows(states.queries, token);
}

Matrix token_rows(const std::vector<Matrix>& heads, int token) {
  Matrix result(static_cast<Eigen::Index>(heads.size()), heads.front().cols());
  for (Eigen::Index head = 0; head < result.rows(); ++head) {
    result.row(head) = heads[static_cast<std::size_t>(head)].row(token);
  }
  return result;
}

std::list<LayerStatesCache::Entry>::iterator LayerStatesCache::find(const Key& key) {
  const auto found = std::find_if(entries_.begin(), entries_.end(),
                                  [&](const Entry& entry) { return entry.key == key; });
  if (found != entries_.end()) entries_.splice(entries_.begin(), entries_, found);
  return found;
}

std::shared_ptr<const LayerStates> LayerStatesCache::get(const Trace& trace, int layer,
                                                         const StateParts& parts,
                                                         Progress& progress) {
  const Key key{trace.path(), trace.identity(), layer};
  StateParts all = parts;
  {
    const std::lock_guard lock(mutex_);
    if (const auto found = find(key); found != entries_.end()) {
      if (found->parts.cover(parts)) return found->states;
      all = all.with(found->parts);
    }
  }
  auto states = std::make_shared<const LayerStates>(load_layer_states(trace, layer, all, progress));
  const std::lock_guard lock(mutex_);
  if (const auto other = find(key); other != entries_.end()) {
    if (other->parts.cover(parts)) return other->states;  // another thread was faster
    bytes_ -= other->bytes;
    entries_.erase(other);
  }
  entries_.push_front({key, all, states->bytes(), states});
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

std::shared_ptr<const LayerStates> layer_states(LayerStatesCache* cache, const Trace& trace,
                                                int layer, const StateParts& parts,
                                                Progress& progress) {
  if (cache != nullptr) return cache->get(trace, layer, parts, progress);
  return std::make_shared<const LayerStates>(load_layer_states(trace, layer, parts, progress));
}

}  // namespace kvloupe
