#include "analysis/replay/record/head_states.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "analysis/math/attention.h"

namespace kvloupe {

namespace {
std::size_t bytes_of_layer(const Trace& trace, int layer, const StateParts& asked) {
  const StateParts parts = with_gate(trace, layer, asked);
  const ModelInfo& model = trace.layer_model(layer);
  const auto tokens = static_cast<std::size_t>(trace.length());
  const auto query_heads = static_cast<std::size_t>(model.num_heads);
  const auto heads = static_cast<std::size_t>(model.num_kv_heads);
  const auto d = static_cast<std::size_t>(model.head_dim);
  const auto width = static_cast<std::size_t>(model.value_width());
  std::size_t floats = heads * tokens * (parts.values ? d + width : d);
  if (parts.queries) floats += query_heads * tokens * d;
  if (parts.value_norms && trace.has_output_weight()) floats += 2 * query_heads * tokens;
  if (parts.values && trace.has_gate(layer)) floats += query_heads * tokens * width;
  if (parts.logsumexp) floats += query_heads * tokens;
  std::size_t bytes = floats * sizeof(float);
  if (parts.output_weights && trace.has_output_weight()) {  // mostly held as halves
    bytes +=
        query_heads * width * static_cast<std::size_t>(model.hidden_size) * sizeof(std::uint16_t);
  }
  return bytes;
}
}  // namespace

std::size_t layer_bytes(const Trace& trace, const StateParts& parts) {
  // The result is for the layer that takes the most bytes.
  std::size_t most = 0;
  for (int layer = 0; layer < trace.model().num_layers; ++layer) {
    if (trace.attends(layer)) most = std::max(most, bytes_of_layer(trace, layer, parts));
  }
  return most;
}

LayerStates load_head_states(const Trace& trace, int layer, int head, const StateParts& asked,
                             Progress& progress) {
  const StateParts parts = with_gate(trace, layer, asked);
  const ModelInfo& model = trace.layer_model(layer);
  const auto heads = static_cast<std::size_t>(model.num_kv_heads);
  const auto query_heads = static_cast<std::size_t>(model.num_heads);
  const auto h = static_cast<std::size_t>(head);
  LayerStates states;
  progress.check();
  if (parts.values) states.gates = gates_of(trace, layer);
  states.keys.resize(heads);
  states.keys[h] = trace.key(layer, head);
  if (parts.values) {
    states.values.resize(heads);
    states.values[h] = trace.value(layer, head);
  }
  if (parts.queries) states.queries.resize(query_heads);
  if (parts.logsumexp) states.logsumexp.resize(query_heads);
  if (parts.value_norms && trace.has_output_weight()) {
    states.value_norms_l1.resize(query_heads);
    states.value_norms_l2.resize(query_heads);
  }
  const int group = model.group_size();
  for (int query_head = head * group; query_head < (head + 1) * group; ++query_head) {
    progress.check();
    const auto index = static_cast<std::size_t>(query_head);
    if (parts.queries) states.queries[index] = trace.query(layer, query_head);
    if (parts.output_weights) {
      if (auto weight = trace.output_weight(layer, query_head)) {
        states.output_weights.resize(query_heads);
        states.output_weights[index] = std::move(*weight);
      }
    }
    if (!states.value_norms_l1.empty()) {
      states.value_norms_l1[index] = trace.value_out_norm(layer, query_head, Norm::l1);
      states.value_norms_l2[index] = trace.value_out_norm(layer, query_head, Norm::l2);
    }
    if (parts.logsumexp) {
      const Matrix own = parts.queries ? Matrix() : trace.query(layer, query_head);
      const Matrix& queries = parts.queries ? states.queries[index] : own;
      states.logsumexp[index] = trusted_logsumexp(
          trace.attention_logsumexp(layer, query_head), view(queries), view(states.keys[h]),
          trace.attention(layer).of(query_head), trace.reach(layer), progress);
    }
  }
  return states;
}

HeadStates::HeadStates(LayerStatesCache* cache, const Trace& trace, int layer,
                       const StateParts& parts, std::size_t most_bytes, Progress& progress)
    : trace_(trace), layer_(layer), parts_(parts), progress_(progress) {
  if (layer_bytes(trace, parts) > most_bytes) return;
  held_ = layer_states(cache, trace, layer, parts, progress);
}

std::shared_ptr<const LayerStates> HeadStates::of(int head) const {
  if (held_) return held_;
  return std::make_shared<const LayerStates>(
      load_head_states(trace_, layer_, head, parts_, progress_));
}

Matrix HeadStates::queries_of_token(int token) const {
  if (held_) return kvloupe::queries_of_token(trace_, *held_, layer_, token);
  return trace_.queries_of_token(layer_, token);
}

}  // namespace kvloupe
