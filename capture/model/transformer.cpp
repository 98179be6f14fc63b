#include "capture/model/transformer.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "analysis/error.h"
#include "capture/checkpoint/weight_source.h"

namespace kvloupe {

namespace {

// Rows of a packed model's output head that are expanded at a time: whole pieces, as for a head in
// memory.
constexpr std::int64_t kHeadRows = 28 * kPieceColumnsOfOneRow;
static_assert(kHeadRows % kPieceColumns == 0);

std::string layer_name(std::int64_t layer, const std::string& part) {
  return "model.layers." + std::to_string(layer) + "." + part;
}

std::string shape_text(at::IntArrayRef shape) {
  std::string text = "[";
  for (std::size_t i = 0; i < shape.size(); ++i) {
    text += (i == 0 ? "" : ",") + std::to_string(shape[i]);
  }
  return text + "]";
}

/// x · w / √(mean(x²) + eps) over the last dimension, in float32, returned in x's dtype.
at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& weight, double eps) {
  const at::Tensor wide = x.to(at::kFloat);
  const at::Tensor scale = (wide.square().mean(-1, /*keepdim=*/true) + eps).rsqrt();
  return (wide * scale * weight.to(at::kFloat)).to(x.scalar_type());
}

}  // namespace

at::Tensor rotate(const at::Tensor& x, const Rotation& rotation) {
  const at::Tensor wide = x.to(at::kFloat);
  const std::int64_t half = x.size(-1) / 2;
  const at::Tensor turned = at::cat({-wide.slice(-1, half), wide.slice(-1, 0, half)}, -1);
  return (wide * rotation.cosine + turned * rotation.sine).to(x.scalar_type());
}

std::vector<WeightShape> weight_shapes(const ModelConfig& config, std::int64_t layer) {
  const std::int64_t hidden = config.hidden_size;
  const std::int64_t mlp = config.intermediate_size;
  const std::int64_t queries = config.num_heads * config.head_dim;
  const std::int64_t keys = config.num_kv_heads * config.head_dim;
  std::vector<WeightShape> shapes;
  const auto norm = [&](const char* part, std::int64_t size) {
    shapes.push_back({layer_name(layer, part) + ".weight", {size}});
  };
  const auto projection = [&](const char* part, std::int64_t out, std::int64_t in, bool bias) {
    shapes.push_back({layer_name(layer, part) + ".weight", {out, in}});
    if (bias) shapes.push_back({layer_name(layer, part) + ".bias", {out}});
  };
  norm("input_layernorm", hidden);
  projection("self_attn.q_proj", queries, hidden, config.qkv_bias);
  projection("self_attn.k_proj", keys, hidden, config.qkv_bias);
  projection("self_attn.v_proj", keys, hidden, config.qkv_bias);
  if (config.query_key_norm) {
    norm("self_attn.q_norm", config.head_dim);
    norm("self_attn.k_norm", config.head_dim);
  }
  projection("self_attn.o_proj", hidden, queries, config.output_bias);
  norm("post_attention_layernorm", hidden);
  projection("mlp.gate_proj", mlp, hidden, config.mlp_bias);
  projection("mlp.up_proj", mlp, hidden, config.mlp_bias);
  projection("mlp.down_proj", hidden, mlp, config.mlp_bias);
  return shapes;
}

std::vector<WeightShape> weight_shapes(const ModelConfig& config) {
  const std::int64_t hidden = config.hidden_size;
  std::vector<WeightShape> shapes{{"model.embed_tokens.weight", {config.vocab_size, hidden}}};
  for (std::int64_t layer = 0; layer < config.num_layers; ++layer) {
    for (WeightShape& weight : weight_shapes(config, layer)) shapes.push_back(std::move(weight));
  }
  shapes.push_back({"model.norm.weight", {hidden}});
  if (!config.tied_head) shapes.push_back({"lm_head.weight", {config.vocab_size, hidden}});
  return shapes;
}

Transformer::Transformer(ModelConfig config, Weights weights)
    : config_(std::move(config)), weights_(std::move(weights)) {
  for (const WeightShape& expected : weight_shapes(config_)) {
    const auto found = weights_.find(expected.name);
    if (found == weights_.end()) throw WorkError("the weight " + expected.name + " is missing");
    if (found->second.sizes() != at::IntArrayRef(expected.shape)) {
      throw WorkError("the weight " + expected.name + " has the shape " +
                      shape_text(found->second.sizes()) + ", expected " +
                      shape_text(expected.shape));
    }
  }
  embedding_ = weight("model.embed_tokens.weight");
  last_norm_ = weight("model.norm.weight");
  options_ = weight(head_name()).options();
  for (int layer = 0; layer < config_.num_layers; ++layer) {
    layers_.push_back(gather(layer, [&](const std::string& name) { return weight(name); }));
  }
}

Transformer::Transformer(ModelConfig config, std::shared_ptr<const WeightSource> source,
                         at::ScalarType type, at::Device device)
    : config_(std::move(config)),
      options_(at::dtype(type).device(device)),
      source_(std::move(source)) {
  last_norm_ = source_->tensor("model.norm.weight", {config_.hidden_size}, type).to(device);
}

Transformer::LayerWeights Transformer::gather(
    int layer, const std::function<at::Tensor(const std::string&)>& take) const {
  const auto own = [&](const char* part) { return take(layer_name(layer, part) + ".weight"); };
  const auto projection = [&](const char* part, bool bias) {
    return Projection{own(part), bias ? take(layer_name(layer, part) + ".bias") : at::Tensor()};
  };
  LayerWeights of;
  of.input_norm = own("input_layernorm");
  of.query = projection("self_attn.q_proj", config_.qkv_bias);
  of.key = projection("self_attn.k_proj", config_.qkv_bias);
  of.value = projection("self_attn.v_proj", config_.qkv_bias);
  if (config_.query_key_norm) {
    of.query_norm = own("self_attn.q_norm");
    of.key_norm = own("self_attn.k_norm");
  }
  of.output = projection("self_attn.o_proj", config_.output_bias);
  of.mlp_norm = own("post_attention_layernorm");
  of.gate = projection("mlp.gate_proj", config_.mlp_bias);
  of.up = projection("mlp.up_proj", config_.mlp_bias);
  of.down = projection("mlp.down_proj", config_.mlp_bias);
  return of;
}

at::Tensor Transformer::packed(const std::string& name, const std::vector<std::int64_t>& shape,
                               std::int64_t first, std::int64_t end,
                               const std::string& room_name) const {
  at::Tensor& room = rooms_[room_name];
  std::int64_t numbers = end - first;
  for (std::size_t i = 1; i < shape.size(); ++i) numbers *= shape[i];
  const at::ScalarType type = options_.dtype().toScalarType();
  const bool fits = room.defined() && room.numel() >= numbers;
  if (!fits && !source_->is_mapped(name, type)) room = at::empty({numbers}, type);
  return source_->rows(name, shape, first, end, type, room).to(options_.device());
}

const Transformer::LayerWeights& Transformer::layer(int layer) const {
  if (!is_packed()) return layers_.at(static_cast<std::size_t>(layer));
  if (turn_ == layer) return expanded_;
  turn_ = -1;
  std::map<std::string, std::vector<std::int64_t>> shapes;
  for (WeightShape& weight : weight_shapes(config_, layer)) {
    shapes.emplace(std::move(weight.name), std::move(weight.shape));
  }
  const std::size_t prefix = layer_name(layer, "").size();
  expanded_ = gather(layer, [&](const std::string& name) {
    const std::vector<std::int64_t>& shape = shapes.at(name);
    return packed(name, shape, 0, shape.front(), name.substr(prefix));
  });
  turn_ = layer;
  return expanded_;
}

at::Tensor Transformer::packed_rows(const std::string& name, std::int64_t first, std::int64_t end,
                                    const std::string& room) const {
  return packed(name, {config_.vocab_size, config_.hidden_size}, first, end, room);
}

at::Tensor Transformer::packed_rows(const std::string& name, const at::Tensor& ids) const {
  const at::Tensor all = ids.to(at::kCPU).contiguous();
  std::vector<at::Tensor> rows;
  for (std::int64_t i = 0; i < all.numel(); ++i) {
    const std::int64_t id = all.data_ptr<std::int64_t>()[i];
    rows.push_back(packed_rows(name, id, id + 1, "one row").clone());
  }
  return at::cat(rows);
}

std::string Transformer::head_name() const {
  return config_.tied_head ? "model.embed_tokens.weight" : "lm_head.weight";
}

at::Tensor Transformer::head_weight() const {
  return is_packed() ? packed_rows(head_name(), 0, config_.vocab_size, "whole head")
                     : weight(head_name());
}

at::Tensor Transformer::head_rows(const at::Tensor& ids) const {
  return is_packed() ? packed_rows(head_name(), ids)
                     : weight(head_name()).index_select(0, ids.to(options_.device()));
}

at::Tensor Transformer::output_weight(int layer) const {
  if (!is_packed() || turn_ == layer) return this->layer(layer).output.weight;
  if (output_turn_ != layer) {
    output_ = packed(layer_name(layer, "self_attn.o_proj.weight"),
                     {config_.hidden_size, config_.num_heads * config_.head_dim}, 0,
                     config_.hidden_size, "output out of turn");
    output_turn_ = layer;
  }
  return output_;
}

at::Tensor Transformer::input_norm_weight(int layer) const { return this->layer(layer).input_norm; }

double Transformer::attention_scale() const {
  return 1.0 / std::sqrt(static_cast<double>(config_.head_dim));
}

at::Tensor Transformer::embed(const at::Tensor& ids) const {
  if (!is_packed()) return at::embedding(embedding_, ids);
  return packed_rows("model.embed_tokens.weight", ids)
      .view({ids.size(0), ids.size(1), config_.hidden_size});
}

Rotation Transformer::rotation(const at::Tensor& positions) const {
  Rotation rotation = turn(positions);
  const double stretch = rope_stretch(config_.rope_scaling);
  if (stretch == 1.0) return rotation;
  return {rotation.cosine * stretch, rotation.sine * stretch};
}

Rotation Transformer::turn(const at::Tensor& positions) const {
  const auto wide = positions.options().dtype(at::kDouble);
  std::vector<double> frequencies = rope_frequencies(
      config_.rope_theta, static_cast<int>(config_.head_dim), config_.rope_scaling);
  const at::Tensor frequency =
      at::from_blob(frequencies.data(), {config_.head_dim / 2}, at::dtype(at::kDouble)).to(wide);
  const at::Tensor angle = at::outer(positions.to(at::kDouble), frequency);
  const at::Tensor both = at::cat({angle, angle}, -1);
  return {both.cos().to(at::kFloat), both.sin().to(at::kFloat)};
}

StateTensors Transformer::states(int layer, const at::Tensor& hidden,
                                 const Rotation& rotation) const {
  const LayerWeights& w = this->layer(layer);
  const std::int64_t b = hidden.size(0);
  const std::int64_t m = hidden.size(1);
  const at::Tensor x = rms_norm(hidden, w.input_norm, config_.rms_norm_eps);
  const std::vector<at::Tensor> products = project(x, {&w.query, &w.key, &w.value});
  const auto heads = [&](const at::Tensor& product, std::int64_t count) {
    return product.view({b, m, count, config_.head_dim}).transpose(1, 2);
  };
  const auto normed = [&](const at::Tensor& head, const at::Tensor& norm) {
    return norm.defined() ? rms_norm(head, norm, config_.rms_norm_eps) : head;
  };
  return {rotate(normed(heads(products[0], config_.num_heads), w.query_norm), rotation),
          rotate(normed(heads(products[1], config_.num_kv_heads), w.key_norm), rotation),
          heads(products[2], config_.num_kv_heads)};
}

at::Tensor Transformer::finish_layer(int layer, const at::Tensor& hidden,
                                     const at::Tensor& outputs) const {
  const LayerWeights& w = this->layer(layer);
  const at::Tensor joined = outputs.transpose(1, 2).flatten(2);  // [b,m,Hq·d]
  const at::Tensor attended = hidden + w.output(joined);
  const at::Tensor x = rms_norm(attended, w.mlp_norm, config_.rms_norm_eps);
  const std::vector<at::Tensor> products = project(x, {&w.gate, &w.up});
  return attended + w.down(at::silu(products[0]) * products[1]);
}

at::Tensor Transformer::last_norm(const at::Tensor& hidden) const {
  return rms_norm(hidden, last_norm_, config_.rms_norm_eps);
}

at::Tensor Transformer::logits(const at::Tensor& hidden) const {
  const at::Tensor x = last_norm(hidden);
  if (!is_packed()) return Projection{head_weight(), {}}(x);
  std::vector<at::Tensor> parts;
  for (std::int64_t first = 0; first < config_.vocab_size; first += kHeadRows) {
    const std::int64_t end = std::min(first + kHeadRows, config_.vocab_size);
    parts.push_back(Projection{packed_rows(head_name(), first, end, "rows of the head"), {}}(x));
  }
  return at::cat(parts, -1);
}

at::Tensor Transformer::forward(const at::Tensor& ids, const StatesHook& hook) const {
  const Rotation angles = rotation(at::arange(ids.size(1), ids.options()));
  at::Tensor hidden = embed(ids);
  for (int layer = 0; layer < config_.num_layers; ++layer) {
    const StateTensors at_layer = states(layer, hidden, angles);
    if (hook) hook(layer, at_layer);
    const at::Tensor attention =
        causal_attention(at_layer, attention_scale(), config_.sliding_window)
            .to(at_layer.value.scalar_type());
    // One product per key-value head: its queries' rows stacked, [b,Hk,G·m,m] · [b,Hk,m,d].
    const std::int64_t b = ids.size(0);
    const std::int64_t m = ids.size(1);
    const at::Tensor stacked =
        attention.reshape({b, config_.num_kv_heads, config_.group_size() * m, m});
    const at::Tensor outputs =
        at::matmul(stacked, at_layer.value).reshape({b, config_.num_heads, m, config_.head_dim});
    hidden = finish_layer(layer, hidden, outputs);
  }
  return logits(hidden);
}

at::Tensor causal_attention(const StateTensors& states, double scale, std::int64_t window) {
  const std::int64_t b = states.query.size(0);
  const std::int64_t query_heads = states.query.size(1);
  const std::int64_t heads = states.key.size(1);
  const std::int64_t m = states.query.size(2);
  const at::Tensor stacked =
      states.query.reshape({b, heads, (query_heads / heads) * m, states.query.size(3)});
  const at::Tensor products = at::matmul(stacked, states.key.transpose(-1, -2)).to(at::kFloat);
  const at::Tensor all = at::ones({m, m}, products.options().dtype(at::kBool));
  at::Tensor unseen = all.triu(1);
  if (window > 0) unseen = unseen.logical_or(all.tril(-window));
  const at::Tensor masked = (products.view({b, query_heads, m, m}) * scale)
                                .masked_fill(unseen, -std::numeric_limits<double>::infinity());
  return at::softmax(masked, -1);
}

}  // namespace kvloupe
