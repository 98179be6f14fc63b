#include "capture/model/transformer.h"

#include <algorithm>
#include <utility>

#include "analysis/base/core/error.h"
#include "capture/checkpoint/weight_source.h"
#include "capture/model/runs_together.h"

namespace kvloupe {

namespace {

// Rows of a packed model's output head that are expanded at a time: whole pieces, as for a head in
// memory.
constexpr std::int64_t kHeadRows = 28 * kPieceColumnsOfFewRows;
static_assert(kHeadRows % kPieceColumns == 0);

std::string layer_name(std::int64_t layer, const std::string& part) {
  return "model.layers." + std::to_string(layer) + "." + part;
}

std::string expert_name(std::int64_t index) { return "mlp.experts." + std::to_string(index); }

/// The names of a layer's norms, null for one that the layer does not have.
struct NormNames {
  const char* input = nullptr;
  const char* attention_output = nullptr;
  const char* mlp_input = nullptr;
  const char* mlp_output = nullptr;
};

NormNames norm_names(NormPlaces places) {
  constexpr const char* kInput = "input_layernorm";
  constexpr const char* kBetween =
      "post_attention_layernorm";  // after or before, as the family has
  constexpr const char* kOutput = "post_feedforward_layernorm";
  switch (places) {
    case NormPlaces::before:
      return {kInput, nullptr, kBetween, nullptr};
    case NormPlaces::after:
      return {nullptr, kBetween, nullptr, kOutput};
    case NormPlaces::around:
      return {kInput, kBetween, "pre_feedforward_layernorm", kOutput};
  }
  return {};
}

/// A function of each element of x [...,n], in few rows with a row's bits those of the row alone:
/// libtorch computes what fills no vector at a tensor's end by other code.
at::Tensor by_element(const at::Tensor& x,
                      const std::function<at::Tensor(const at::Tensor&)>& function) {
  constexpr std::int64_t kWholeVectors = 64;
  const std::int64_t rows = x.numel() / x.size(-1);
  if (x.size(-1) % kWholeVectors == 0 || rows > kFewRows) return function(x);
  std::vector<at::Tensor> all;
  for (const at::Tensor& row : x.reshape({rows, -1}).unbind()) all.push_back(function(row));
  return at::stack(all).view_as(x);
}

/// c · tanh(x / c); x where there is no cap.
at::Tensor capped(const at::Tensor& x, double cap) {
  if (cap <= 0.0) return x;
  return by_element(x, [&](const at::Tensor& of) { return (of / cap).tanh() * cap; });
}

std::string shape_text(at::IntArrayRef shape) {
  std::string text = "[";
  for (std::size_t i = 0; i < shape.size(); ++i) {
    text += (i == 0 ? "" : ",") + std::to_string(shape[i]);
  }
  return text + "]";
}

/// x · w / √(mean(x²) + eps) over the last dimension, in float32, returned in x's dtype; x where
/// there is no norm.
at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& weight, double eps) {
  if (!weight.defined()) return x;
  const at::Tensor wide = x.to(at::kFloat);
  const at::Tensor scale = (wide.square().mean(-1, /*keepdim=*/true) + eps).rsqrt();
  return (wide * scale * weight.to(at::kFloat)).to(x.scalar_type());
}

}  // namespace

at::Tensor rotate(const at::Tensor& x, const Rotation& rotation) {
  if (!rotation.cosine.defined()) return x;
  const at::Tensor wide = x.to(at::kFloat);
  const std::int64_t half = x.size(-1) / 2;
  const at::Tensor turned = at::cat({-wide.slice(-1, half), wide.slice(-1, 0, half)}, -1);
  return (wide * rotation.cosine + turned * rotation.sine).to(x.scalar_type());
}

bool is_of_expert(const std::string& name) { return name.find(".mlp.experts.") != name.npos; }

std::string sink_logits_name(std::int64_t layer) { return layer_name(layer, "self_attn.sinks"); }

std::vector<WeightShape> weight_shapes(const ModelConfig& config, std::int64_t layer) {
  const std::int64_t hidden = config.hidden_size;
  const std::int64_t queries = config.num_heads * config.head_dim;
  const std::int64_t keys = config.num_kv_heads * config.head_dim;
  std::vector<WeightShape> shapes;
  const auto norm = [&](const char* part, std::int64_t size) {
    shapes.push_back({layer_name(layer, part) + ".weight", {size}});
  };
  const auto projection = [&](const std::string& part, std::int64_t out, std::int64_t in,
                              bool bias) {
    shapes.push_back({layer_name(layer, part) + ".weight", {out, in}});
    if (bias) shapes.push_back({layer_name(layer, part) + ".bias", {out}});
  };
  const auto mlp = [&](const std::string& name, std::int64_t size, bool bias) {
    projection(name + ".gate_proj", size, hidden, bias);
    projection(name + ".up_proj", size, hidden, bias);
    projection(name + ".down_proj", hidden, size, bias);
  };
  const NormNames names = norm_names(config.norms);
  const auto norm_of_layer = [&](const char* name) {
    if (name != nullptr) norm(name, hidden);
  };
  norm_of_layer(names.input);
  projection("self_attn.q_proj", queries, hidden, config.qkv_bias);
  projection("self_attn.k_proj", keys, hidden, config.qkv_bias);
  projection("self_attn.v_proj", keys, hidden, config.qkv_bias);
  if (config.query_key_norm != QueryKeyNorm::none) {
    const bool whole = config.query_key_norm == QueryKeyNorm::whole;
    norm("self_attn.q_norm", whole ? queries : config.head_dim);
    norm("self_attn.k_norm", whole ? keys : config.head_dim);
  }
  if (config.sink_logits) shapes.push_back({sink_logits_name(layer), {config.num_heads}});
  projection("self_attn.o_proj", hidden, queries, config.output_bias);
  norm_of_layer(names.attention_output);
  norm_of_layer(names.mlp_input);
  if (config.layer(layer).experts) {
    const Experts& experts = config.experts;
    projection("mlp.gate", experts.count, hidden, experts.biases);
    for (std::int64_t index = 0; index < experts.count; ++index) {
      mlp(expert_name(index), experts.intermediate_size, experts.biases);
    }
  } else {
    mlp("mlp", config.intermediate_size, config.mlp_bias);
  }
  norm_of_layer(names.mlp_output);
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
  last_norm_ = norm_weight(weight("model.norm.weight"));
  options_ = weight(head_name()).options();
  for (int layer = 0; layer < config_.num_layers; ++layer) {
    layers_.push_back(gather(layer, [&](const std::string& name) { return weight(name); }));
    if (config_.sink_logits) {
      sink_logits_.push_back(weight(sink_logits_name(layer)).to(at::kFloat));
    }
  }
}

Transformer::Transformer(ModelConfig config, std::shared_ptr<const WeightSource> source,
                         at::ScalarType type, at::Device device)
    : config_(std::move(config)),
      options_(at::dtype(type).device(device)),
      source_(std::move(source)) {
  last_norm_ =
      norm_weight(source_->tensor("model.norm.weight", {config_.hidden_size}, type).to(device));
  for (int layer = 0; config_.sink_logits && layer < config_.num_layers; ++layer) {
    sink_logits_.push_back(
        source_->tensor(sink_logits_name(layer), {config_.num_heads}, at::kFloat).to(device));
  }
}

at::Tensor Transformer::norm_weight(const at::Tensor& stored) const {
  return config_.norm_offset == 0.0 ? stored : stored.to(at::kFloat) + config_.norm_offset;
}

Transformer::Mlp Transformer::gather_mlp(const std::string& name, bool bias,
                                         const Take& take) const {
  const auto projection = [&](const char* part) {
    const std::string whole = name + "." + part;
    return Projection{take(whole + ".weight"), bias ? take(whole + ".bias") : at::Tensor()};
  };
  return {projection("gate_proj"), projection("up_proj"), projection("down_proj")};
}

Transformer::LayerWeights Transformer::gather(int layer, const Take& take) const {
  const auto projection = [&](const char* part, bool bias) {
    return Projection{take(layer_name(layer, part) + ".weight"),
                      bias ? take(layer_name(layer, part) + ".bias") : at::Tensor()};
  };
  const auto norm = [&](const char* part) {
    return part == nullptr ? at::Tensor() : norm_weight(take(layer_name(layer, part) + ".weight"));
  };
  const NormNames names = norm_names(config_.norms);
  LayerWeights of;
  of.input_norm = norm(names.input);
  of.query = projection("self_attn.q_proj", config_.qkv_bias);
  of.key = projection("self_attn.k_proj", config_.qkv_bias);
  of.value = projection("self_attn.v_proj", config_.qkv_bias);
  if (config_.query_key_norm != QueryKeyNorm::none) {
    of.query_norm = norm("self_attn.q_norm");
    of.key_norm = norm("self_attn.k_norm");
  }
  of.output = projection("self_attn.o_proj", config_.output_bias);
  of.attention_norm = norm(names.attention_output);
  of.mlp_norm = norm(names.mlp_input);
  of.mlp_output_norm = norm(names.mlp_output);
  if (!config_.layer(layer).experts) {
    of.mlp = gather_mlp(layer_name(layer, "mlp"), config_.mlp_bias, take);
    return of;
  }
  of.router = projection("mlp.gate", config_.experts.biases);
  for (std::int64_t index = 0; !is_packed() && index < config_.experts.count; ++index) {
    of.experts.push_back(
        gather_mlp(layer_name(layer, expert_name(index)), config_.experts.biases, take));
  }
  return of;
}

/// An expert of a packed model replaces the previous one in memory.
Transformer::Mlp Transformer::expert(int layer, std::int64_t index) const {
  if (!is_packed()) {
    return this->layer(layer).experts.at(static_cast<std::size_t>(index));
  }
  const std::string name = layer_name(layer, expert_name(index));
  const std::int64_t size = config_.experts.intermediate_size, hidden = config_.hidden_size;
  return gather_mlp(name, config_.experts.biases, [&](const std::string& weight) {
    const std::string part = weight.substr(name.size());
    const bool down = part.starts_with(".down_proj");
    std::vector<std::int64_t> shape{down ? hidden : size};
    if (part.ends_with(".weight")) shape.push_back(down ? size : hidden);
    return packed(weight, shape, 0, shape.front(), "expert" + part);
  });
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

AttentionRule Transformer::attention(int layer) const {
  return {config_.attention_scale, config_.attention_softcap, config_.layer(layer).sliding_window,
          sink_logits_.empty() ? at::Tensor() : sink_logits_.at(static_cast<std::size_t>(layer))};
}

at::Tensor Transformer::embed(const at::Tensor& ids) const {
  at::Tensor rows = !is_packed() ? at::embedding(embedding_, ids)
                                 : packed_rows("model.embed_tokens.weight", ids)
                                       .view({ids.size(0), ids.size(1), config_.hidden_size});
  if (config_.embedding_multiplier == 1.0) return rows;
  // Gemma rounds the factor to the type of the computation.
  return rows * at::full({}, config_.embedding_multiplier, at::kDouble).to(rows.options());
}

Rotations Transformer::rotations(const at::Tensor& positions) const {
  return rotations(positions, true);
}
Rotations Transformer::turns(const at::Tensor& positions) const {
  return rotations(positions, false);
}

Rotations Transformer::rotations(const at::Tensor& positions, bool stretched) const {
  const auto wide = positions.options().dtype(at::kDouble);
  Rotations all;
  for (std::size_t i = 0; i < config_.layers.size(); ++i) {
    const LayerConfig& layer = config_.layers[i];
    // A layer shares the tables of an earlier layer with the same rotation.
    const auto same =
        std::find_if(config_.layers.begin(), config_.layers.end(),
                     [&](const LayerConfig& earlier) { return earlier.same_rotation(layer); });
    const auto first = static_cast<std::size_t>(same - config_.layers.begin());
    if (first < i || !layer.rotates) {
      all.push_back(first < i ? all[first] : Rotation());
      continue;
    }
    std::vector<double> frequencies =
        rope_frequencies(layer.rope_theta, static_cast<int>(config_.head_dim), layer.rope_scaling);
    const at::Tensor frequency =
        at::from_blob(frequencies.data(), {config_.head_dim / 2}, at::dtype(at::kDouble)).to(wide);
    const at::Tensor angle = at::outer(positions.to(at::kDouble), frequency);
    const at::Tensor both = at::cat({angle, angle}, -1);
    all.push_back({both.cos().to(at::kFloat), both.sin().to(at::kFloat)});
    const double stretch = stretched ? rope_stretch(layer.rope_scaling) : 1.0;
    if (stretch != 1.0) all.back() = {all.back().cosine * stretch, all.back().sine * stretch};
  }
  return all;
}

at::Tensor Transformer::attention_input(int layer, const at::Tensor& hidden) const {
  return rms_norm(hidden, this->layer(layer).input_norm, config_.rms_norm_eps);
}

StateTensors Transformer::states(int layer, const at::Tensor& hidden,
                                 const Rotations& rotations) const {
  const Rotation& rotation = rotations.at(static_cast<std::size_t>(layer));
  if (hidden.size(1) > 1 || !runs_together()) return states(layer, hidden, rotation);
  const std::vector<at::Tensor> made =
      compute_together({this, 3 * layer}, {{hidden, 1}, {rotation.cosine, 0}, {rotation.sine, 0}},
                       [&](const std::vector<at::Tensor>& of) -> std::vector<AlongTokens> {
                         const StateTensors all = states(layer, of[0], Rotation{of[1], of[2]});
                         return {{all.query, 2}, {all.key, 2}, {all.value, 2}};
                       });
  return {made[0], made[1], made[2]};
}

StateTensors Transformer::states(int layer, const at::Tensor& hidden,
                                 const Rotation& rotation) const {
  const LayerWeights& w = this->layer(layer);
  const std::int64_t b = hidden.size(0);
  const std::int64_t m = hidden.size(1);
  const std::vector<at::Tensor> products =
      project(attention_input(layer, hidden), {&w.query, &w.key, &w.value});
  const auto heads = [&](const at::Tensor& product, std::int64_t count) {
    return product.view({b, m, count, config_.head_dim}).transpose(1, 2);
  };
  const auto turned = [&](const at::Tensor& product, std::int64_t count, const at::Tensor& norm) {
    const double eps = config_.rms_norm_eps;
    return rotate(config_.query_key_norm == QueryKeyNorm::whole
                      ? heads(rms_norm(product, norm, eps), count)
                      : rms_norm(heads(product, count), norm, eps),
                  rotation);
  };
  return {turned(products[0], config_.num_heads, w.query_norm),
          turned(products[1], config_.num_kv_heads, w.key_norm),
          heads(products[2], config_.num_kv_heads)};
}

at::Tensor Transformer::run_mlp(const Mlp& mlp, const at::Tensor& x) const {
  const std::vector<at::Tensor> products = project(x, {&mlp.gate, &mlp.up});
  const at::Tensor &gate = products[0], &up = products[1];
  const auto activated = [&](const at::Tensor& of) {
    if (config_.activation == Activation::silu) return at::silu(of);
    if (config_.activation == Activation::gelu_tanh) return at::gelu(of, "tanh");
    const at::Tensor low = of.clamp_max(config_.activation_limit);
    return low * at::sigmoid(low * config_.activation_gain);
  };
  const at::Tensor active = by_element(gate, activated);
  if (config_.activation != Activation::clamped_silu) return mlp.down(active * up);
  const double limit = config_.activation_limit;
  return mlp.down((up.clamp(-limit, limit) + 1.0) * active);
}

/// x [b,m,D] -> Σ over the experts that a token takes, of probability · the expert's output.
at::Tensor Transformer::run_experts(int layer, const at::Tensor& x) const {
  const Experts& experts = config_.experts;
  const at::Tensor rows = x.reshape({-1, x.size(-1)});  // [n,D]
  const at::Tensor all = at::softmax(this->layer(layer).router(rows).to(at::kFloat), -1);
  auto [taken, index] = all.topk(experts.per_token, -1);  // [n,k]
  if (experts.normalised) taken = taken / taken.sum(-1, /*keepdim=*/true);
  const at::Tensor probability = taken.to(x.scalar_type());
  const at::Tensor chosen = index.to(at::kCPU).contiguous();
  std::vector<std::vector<std::int64_t>> places(static_cast<std::size_t>(experts.count));
  for (std::int64_t place = 0; place < chosen.numel(); ++place) {
    places[static_cast<std::size_t>(chosen.data_ptr<std::int64_t>()[place])].push_back(place);
  }
  at::Tensor sum = at::zeros_like(rows);
  for (std::int64_t i = 0; i < experts.count; ++i) {
    std::vector<std::int64_t>& own = places[static_cast<std::size_t>(i)];
    if (own.empty()) continue;
    const at::Tensor place =
        at::from_blob(own.data(), {std::ssize(own)}, at::dtype(at::kLong)).clone().to(x.device());
    const at::Tensor token = at::floor_divide(place, experts.per_token);
    const at::Tensor output = run_mlp(expert(layer, i), rows.index_select(0, token));
    sum.index_add_(0, token, output * probability.reshape({-1, 1}).index_select(0, place));
  }
  return sum.view(x.sizes());
}

/// hidden + factor · norm(output).
at::Tensor Transformer::add_to(const at::Tensor& hidden, const at::Tensor& output,
                               const at::Tensor& norm) const {
  const at::Tensor normed = rms_norm(output, norm, config_.rms_norm_eps);
  if (config_.residual_multiplier == 1.0) return hidden + normed;
  return hidden + normed * config_.residual_multiplier;
}

at::Tensor Transformer::finish_layer(int layer, const at::Tensor& hidden,
                                     const at::Tensor& outputs) const {
  if (hidden.size(1) > 1 || !runs_together()) return finished(layer, hidden, outputs);
  return compute_together({this, 3 * layer + 1}, {{hidden, 1}, {outputs, 2}},
                          [&](const std::vector<at::Tensor>& of) -> std::vector<AlongTokens> {
                            return {{finished(layer, of[0], of[1]), 1}};
                          })
      .front();
}

Transformer::PassedOn Transformer::pass_on(int layer, const at::Tensor& hidden,
                                           const at::Tensor& outputs,
                                           const Rotations& rotations) const {
  if (layer + 1 == config_.num_layers) return {finish_layer(layer, hidden, outputs), {}};
  const Rotation& rotation = rotations.at(static_cast<std::size_t>(layer) + 1);
  const auto both = [&](const std::vector<at::Tensor>& of) -> std::vector<AlongTokens> {
    const at::Tensor output = finished(layer, of[0], of[1]);
    const StateTensors next = states(layer + 1, output, Rotation{of[2], of[3]});
    return {{output, 1}, {next.query, 2}, {next.key, 2}, {next.value, 2}};
  };
  const std::vector<AlongTokens> inputs = {
      {hidden, 1}, {outputs, 2}, {rotation.cosine, 0}, {rotation.sine, 0}};
  if (hidden.size(1) == 1 && runs_together()) {
    const std::vector<at::Tensor> made = compute_together({this, 3 * layer + 2}, inputs, both);
    return {made[0], {made[1], made[2], made[3]}};
  }
  const std::vector<AlongTokens> made = both({hidden, outputs, rotation.cosine, rotation.sine});
  return {made[0].x, {made[1].x, made[2].x, made[3].x}};
}

at::Tensor Transformer::finished(int layer, const at::Tensor& hidden,
                                 const at::Tensor& outputs) const {
  const LayerWeights& w = this->layer(layer);
  const at::Tensor joined = outputs.transpose(1, 2).flatten(2);  // [b,m,Hq·d]
  const at::Tensor attended = add_to(hidden, w.output(joined), w.attention_norm);
  const at::Tensor x = rms_norm(attended, w.mlp_norm, config_.rms_norm_eps);
  const at::Tensor made = config_.layer(layer).experts ? run_experts(layer, x) : run_mlp(w.mlp, x);
  return add_to(attended, made, w.mlp_output_norm);
}

at::Tensor Transformer::last_norm(const at::Tensor& hidden) const {
  return rms_norm(hidden, last_norm_, config_.rms_norm_eps);
}

at::Tensor Transformer::logits(const at::Tensor& hidden) const {
  if (hidden.size(1) > 1 || !runs_together()) return logits_of(hidden);
  return compute_together({this, -1}, {{hidden, 1}},
                          [&](const std::vector<at::Tensor>& of) -> std::vector<AlongTokens> {
                            return {{logits_of(of[0]), 1}};
                          })
      .front();
}

at::Tensor Transformer::logits_of(const at::Tensor& hidden) const {
  const at::Tensor x = last_norm(hidden);
  const auto finish = [&](const at::Tensor& products) {
    return capped(config_.logits_divisor == 1.0 ? products : products / config_.logits_divisor,
                  config_.logits_softcap);
  };
  if (!is_packed()) return finish(Projection{head_weight(), {}}(x));
  std::vector<at::Tensor> parts;
  for (std::int64_t first = 0; first < config_.vocab_size; first += kHeadRows) {
    const std::int64_t end = std::min(first + kHeadRows, config_.vocab_size);
    parts.push_back(Projection{packed_rows(head_name(), first, end, "rows of the head"), {}}(x));
  }
  return finish(at::cat(parts, -1));
}

}  // namespace kvloupe
