#include "tests/capture/naive_model.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fstream>
#include <stdexcept>

namespace kvloupe::test {

namespace {

std::string read_all(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error("cannot read " + path.string());
  return {std::istreambuf_iterator<char>(file), {}};
}

double dot(const Row& a, const Row& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

Row part(const Row& x, int index, int size) {
  const auto begin = x.begin() + static_cast<std::ptrdiff_t>(index) * size;
  return {begin, begin + size};
}

double capped(double logit, double cap) { return cap > 0.0 ? cap * std::tanh(logit / cap) : logit; }

Row sum(const Row& a, const Row& b) {
  Row c(a.size());
  for (std::size_t i = 0; i < a.size(); ++i) c[i] = a[i] + b[i];
  return c;
}

}  // namespace

NaiveModel::NaiveModel(const std::filesystem::path& folder) {
  const auto config = nlohmann::json::parse(read_all(folder / "config.json"));
  family_ = config["architectures"][0];
  family_ = family_.substr(0, family_.find("ForCausalLM"));
  num_layers = config["num_hidden_layers"];
  num_heads = config["num_attention_heads"];
  num_kv_heads = config["num_key_value_heads"];
  hidden_size = config["hidden_size"];
  vocab_size = config["vocab_size"];
  head_dim = config["head_dim"];
  rms_norm_eps_ = config["rms_norm_eps"];
  tied_ = config["tie_word_embeddings"];
  scale = 1.0 / std::sqrt(static_cast<double>(head_dim));
  if (family_ == "Granite") {
    scale = config.value("attention_multiplier", 1.0);
    embedding_factor_ = config.value("embedding_multiplier", 1.0);
    residual_factor_ = config.value("residual_multiplier", 1.0);
    logits_divisor_ = config.value("logits_scaling", 1.0);
  }
  if (family_ == "Gemma2" || family_ == "Gemma3") {
    norm_offset_ = 1.0;
    embedding_factor_ = std::sqrt(static_cast<double>(hidden_size));
    scale = 1.0 / std::sqrt(config.value("query_pre_attn_scalar", 256.0));
    const bool second = family_ == "Gemma2";
    const auto cap = [&](const char* name, double absent) {
      return config.contains(name) && config[name].is_null() ? 0.0 : config.value(name, absent);
    };
    attention_cap_ = second ? cap("attn_logit_softcapping", 50.0) : 0.0;
    logits_cap_ = cap("final_logit_softcapping", second ? 30.0 : 0.0);
  }
  if (config.contains("num_experts_per_tok")) {
    experts_ = config[family_ == "Qwen3Moe" ? "num_experts" : "num_local_experts"];
    experts_per_token_ = config["num_experts_per_tok"];
    normalised_ = config.value("norm_topk_prob", family_ != "Qwen3Moe");
  }
  read_layers(config);
  read_weights(folder / "model.safetensors");
}

/// Windows and rotations, which may differ from layer to layer.
void NaiveModel::read_layers(const nlohmann::json& config) {
  const double positions = config["max_position_embeddings"], theta = config["rope_theta"];
  const Rope usual = read_rope(config["rope_scaling"], theta, positions);
  int width = 0;
  if (config.contains("sliding_window") && config["sliding_window"].is_number() &&
      config.value("use_sliding_window", true)) {
    width = config["sliding_window"];
  }
  const int every = family_ == "Gemma3" ? 6 : family_ == "Gemma2" || family_ == "GptOss" ? 2 : 0;
  for (int layer = 0; layer < num_layers; ++layer) {
    bool sees_all = every > 0 && (layer + 1) % every == 0;
    if (every > 0 && config.contains("layer_types")) {
      sees_all = config["layer_types"][layer] == "full_attention";
    }
    windows.push_back(sees_all ? 0 : width);
    Rope rope = usual;
    if (family_ == "Gemma3" && !sees_all) {
      rope = read_rope(nullptr, config.value("rope_local_base_freq", 10000.0), positions);
    }
    if (family_ == "SmolLM3") {
      rope.rotates = config.contains("no_rope_layers") ? config["no_rope_layers"][layer] == 1
                                                       : (layer + 1) % 4 != 0;
    }
    ropes_.push_back(rope);
  }
  window = windows.front();
}

NaiveModel::Rope NaiveModel::read_rope(const nlohmann::json& scaling, double theta,
                                       double positions) const {
  Rope rope{.theta = theta};
  if (!scaling.is_object()) return rope;
  rope.type = scaling.contains("rope_type") ? scaling["rope_type"] : scaling["type"];
  if (rope.type != "default" && rope.type != "yarn") rope.factor = scaling["factor"];
  if (rope.type == "yarn") read_yarn(scaling, positions, rope);
  if (rope.type == "llama3") {
    rope.low = scaling["low_freq_factor"];
    rope.high = scaling["high_freq_factor"];
    rope.original_context = scaling["original_max_position_embeddings"];
  }
  return rope;
}

void NaiveModel::read_weights(const std::filesystem::path& path) {
  const std::string file = read_all(path);
  std::uint64_t header_size = 0;
  std::memcpy(&header_size, file.data(), 8);
  const auto header = nlohmann::json::parse(file.substr(8, header_size));
  const auto bytes_of = [&](const std::string& name) {
    const auto& offsets = header[name]["data_offsets"];
    const std::size_t begin = offsets[0], end = offsets[1];
    return file.substr(8 + header_size + begin, end - begin);
  };
  for (const auto& [name, entry] : header.items()) {
    if (name == "__metadata__" || name.ends_with("_scales")) continue;
    const std::string bytes = bytes_of(name);
    if (name.ends_with("_blocks")) {  // MXFP4: sign, two bits of exponent, one of mantissa
      const std::string stem = name.substr(0, name.size() - std::string("_blocks").size());
      const std::string scales = bytes_of(stem + "_scales");
      packed_.insert(stem);
      std::vector<float>& values = weights_[stem];
      for (std::size_t i = 0; i < 2 * bytes.size(); ++i) {
        const int both = static_cast<unsigned char>(bytes[i / 2]);
        const int number = i % 2 == 0 ? both % 16 : both / 16;
        const int exponent = number / 2 % 4, mantissa = number % 2;
        const double size =
            exponent == 0 ? mantissa / 2.0 : (1.0 + mantissa / 2.0) * std::pow(2.0, exponent - 1);
        const int scale_of = static_cast<unsigned char>(scales[i / 32]);
        values.push_back(
            static_cast<float>((number >= 8 ? -size : size) * std::pow(2.0, scale_of - 127)));
      }
      continue;
    }
    if (entry["dtype"] != "F32") throw std::runtime_error("the naive model reads F32 only");
    std::vector<float> values(bytes.size() / 4);
    std::memcpy(values.data(), bytes.data(), bytes.size());
    weights_[name] = std::move(values);
  }
}

Row NaiveModel::product(const std::string& weight, const Row& x) const {
  const std::vector<float>& w = weights_.at(weight + ".weight");
  Row y(w.size() / x.size(), 0.0);
  if (const auto bias = weights_.find(weight + ".bias"); bias != weights_.end()) {
    y.assign(bias->second.begin(), bias->second.end());
  }
  for (std::size_t row = 0; row < y.size(); ++row) {
    for (std::size_t i = 0; i < x.size(); ++i) y[row] += double{w[row * x.size() + i]} * x[i];
  }
  return y;
}

Row NaiveModel::attention_input(int layer, const Row& hidden) const {
  const std::string name = "model.layers." + std::to_string(layer) + ".input_layernorm";
  return has(name) ? norm(name, hidden) : hidden;
}

Row NaiveModel::norm(const std::string& weight, const Row& x) const {
  const std::vector<float>& w = weights_.at(weight + ".weight");
  const double mean_square = dot(x, x) / static_cast<double>(x.size());
  Row y(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    y[i] = x[i] / std::sqrt(mean_square + rms_norm_eps_) * (norm_offset_ + double{w[i]});
  }
  return y;
}

/// As Transformers computes it, from a rope_scaling that names the differences from the defaults.
void NaiveModel::read_yarn(const nlohmann::json& scaling, double positions, Rope& rope) const {
  const double context = scaling.value("original_max_position_embeddings", positions);
  rope.factor = scaling["factor"].is_null() ? positions / context : double{scaling["factor"]};
  const auto pair_with = [&](double turns) {
    return static_cast<double>(head_dim) *
           std::log(context / turns / 2.0 / 3.14159265358979323846) / 2.0 / std::log(rope.theta);
  };
  rope.yarn_first = pair_with(scaling.value("beta_fast", 32.0));
  rope.yarn_last = pair_with(scaling.value("beta_slow", 1.0));
  if (scaling.value("truncate", true)) {
    rope.yarn_first = std::floor(rope.yarn_first);
    rope.yarn_last = std::ceil(rope.yarn_last);
  }
  if (rope.yarn_first < 0.0) rope.yarn_first = 0.0;
  const double log_factor = 0.1 * std::log(rope.factor);
  if (scaling.contains("attention_factor")) {
    rope.stretch = scaling["attention_factor"];
  } else if (scaling.contains("mscale")) {
    rope.stretch = (1.0 + log_factor * double{scaling["mscale"]}) /
                   (1.0 + log_factor * double{scaling["mscale_all_dim"]});
  } else {
    rope.stretch = 1.0 + log_factor;
  }
}

/// theta^(−2j/d). Linear scaling divides it. Llama 3's looks at the wavelength: a short one stays,
/// a long one is divided, and between them the two are blended.
double NaiveModel::frequency(std::size_t pair, const Rope& rope) const {
  const double plain =
      std::pow(rope.theta, -2.0 * static_cast<double>(pair) / static_cast<double>(head_dim));
  if (rope.type == "linear") return plain / rope.factor;
  if (rope.type == "yarn") {
    const double at = static_cast<double>(pair);
    if (at <= rope.yarn_first) return plain;
    if (at >= rope.yarn_last) return plain / rope.factor;
    const double gone = (at - rope.yarn_first) / (rope.yarn_last - rope.yarn_first);
    return plain / rope.factor * gone + plain * (1.0 - gone);
  }
  if (rope.type != "llama3") return plain;
  const double wavelength = 2.0 * 3.14159265358979323846 / plain;
  if (wavelength < rope.original_context / rope.high) return plain;
  if (wavelength > rope.original_context / rope.low) return plain / rope.factor;
  const double smooth = (rope.original_context / wavelength - rope.low) / (rope.high - rope.low);
  return (1.0 - smooth) * plain / rope.factor + smooth * plain;
}

/// The pair (j, j + d/2) turns by position · its frequency.
Row NaiveModel::rotated(const Row& x, int position, const Rope& rope) const {
  if (!rope.rotates) return x;
  const std::size_t half = x.size() / 2;
  Row y(x.size());
  for (std::size_t j = 0; j < half; ++j) {
    const double angle = position * frequency(j, rope);
    y[j] = x[j] * std::cos(angle) - x[j + half] * std::sin(angle);
    y[j + half] = x[j + half] * std::cos(angle) + x[j] * std::sin(angle);
  }
  return y;
}

Row NaiveModel::turned_head(const Row& x, int head, const std::string& norm_name, int position,
                            const Rope& rope) const {
  // A norm with the size of all heads goes over all of them.
  const bool normed = has(norm_name);
  const bool whole = normed && weights_.at(norm_name + ".weight").size() == x.size();
  Row own = part(whole ? norm(norm_name, x) : x, head, head_dim);
  if (normed && !whole) own = norm(norm_name, own);
  Row y = rotated(own, position, rope);
  for (double& coordinate : y) coordinate *= rope.rotates ? rope.stretch : 1.0;
  return y;
}

Row naive_attention_row(const Row& query, const Rows& keys, std::size_t last, double scale,
                        double* logsumexp, int window, double cap, const float* sink) {
  Row row(last + 1, -1e300);
  for (std::size_t j = 0; j <= last; ++j) {
    if (window == 0 || last - j < static_cast<std::size_t>(window)) {
      row[j] = capped(scale * dot(query, keys[j]), cap);
    }
  }
  double largest = *std::max_element(row.begin(), row.end());
  if (sink != nullptr) largest = std::max(largest, double{*sink});
  double total = sink != nullptr ? std::exp(double{*sink} - largest) : 0.0;
  for (const double logit : row) total += std::exp(logit - largest);
  for (double& entry : row) entry = std::exp(entry - largest) / total;
  if (logsumexp != nullptr) *logsumexp = largest + std::log(total);
  return row;
}

/// Σ_j softmax_j(logit_j + log size_j) v_j over the entries that are not after the query and not
/// before its window.
Row NaiveModel::attend(const Row& query, int query_token, const std::vector<NaiveEntry>& cache,
                       bool compact, int layer, int head) const {
  const Rope& rope = ropes_[layer];
  const int own_window = windows[layer];
  Rows keys;
  std::vector<double> log_sizes;
  std::size_t seen = 0;
  while (seen < cache.size() && cache[seen].token <= query_token) ++seen;
  for (std::size_t place = 0; place < seen; ++place) {
    const int moved = compact ? static_cast<int>(place) - cache[place].token : 0;
    keys.push_back(moved == 0 ? cache[place].key : rotated(cache[place].key, moved, rope));
    log_sizes.push_back(cache[place].log_size);
  }
  // The query's token is the last entry it sees, and shares its place.
  const int moved = compact ? static_cast<int>(seen) - 1 - query_token : 0;
  const Row q = moved == 0 ? query : rotated(query, moved, rope);
  Row weights(seen);
  double largest = -1e300, total = 0;
  for (std::size_t j = 0; j < seen; ++j) {
    weights[j] = capped(dot(q, keys[j]) * scale, attention_cap_) + log_sizes[j];
    if (own_window > 0 && query_token - cache[j].token >= own_window) weights[j] = -1e300;
    largest = std::max(largest, weights[j]);
  }
  const auto sinks = weights_.find("model.layers." + std::to_string(layer) + ".self_attn.sinks");
  if (sinks != weights_.end()) {
    total = std::exp(double{sinks->second[head]} - largest);
  }
  for (double& weight : weights) total += weight = std::exp(weight - largest);
  Row output(query.size(), 0.0);
  for (std::size_t j = 0; j < seen; ++j) {
    for (std::size_t c = 0; c < output.size(); ++c) {
      output[c] += weights[j] / total * cache[j].value[c];
    }
  }
  return output;
}

Row NaiveModel::own_product(const std::string& layer, const char* name, const Row& x) const {
  const std::string own = layer + name;
  if (has(own)) return product(own, x);
  const bool of_mlp = std::string(name).starts_with("mlp.");
  const Row joined = product(layer + (of_mlp ? "mlp.gate_up_proj" : "self_attn.qkv_proj"), x);
  const auto at = [&](std::ptrdiff_t first, std::ptrdiff_t count) {
    return Row(joined.begin() + first, joined.begin() + first + count);
  };
  const std::ptrdiff_t half = std::ssize(joined) / 2, q = num_heads * head_dim,
                       k = num_kv_heads * head_dim;
  const std::string which = name;
  if (which == "mlp.gate_proj") return at(0, half);
  if (which == "mlp.up_proj") return at(half, half);
  if (which == "self_attn.q_proj") return at(0, q);
  return which == "self_attn.k_proj" ? at(q, k) : at(q + k, k);
}

double NaiveModel::activated(double gate, double up) const {
  if (family_ == "GptOss") {
    const double low = std::min(gate, 7.0);
    return (std::clamp(up, -7.0, 7.0) + 1.0) * low / (1.0 + std::exp(-1.702 * low));
  }
  if (norm_offset_ == 0.0) return gate / (1.0 + std::exp(-gate)) * up;
  const double inner =
      std::sqrt(2.0 / 3.14159265358979323846) * (gate + 0.044715 * gate * gate * gate);
  return 0.5 * gate * (1.0 + std::tanh(inner)) * up;
}

Row NaiveModel::expert(const std::string& layer, int index, const Row& x) const {
  const bool mixtral = family_ == "Mixtral";
  Row made;
  if (family_ != "GptOss") {
    const std::string name = layer + (mixtral ? "block_sparse_moe.experts." : "mlp.experts.") +
                             std::to_string(index) + ".";
    const Row gate = product(name + (mixtral ? "w1" : "gate_proj"), x);
    const Row up = product(name + (mixtral ? "w3" : "up_proj"), x);
    for (std::size_t i = 0; i < gate.size(); ++i) made.push_back(activated(gate[i], up[i]));
    return product(name + (mixtral ? "w2" : "down_proj"), made);
  }
  const auto e = static_cast<std::size_t>(index);
  // In MXFP4 a matrix is [out, in], else [in, out].
  const auto times = [&](const std::string& part, const Row& in) {
    const std::vector<float>& w = weights_.at(layer + "mlp.experts." + part);
    const std::vector<float>& b = weights_.at(layer + "mlp.experts." + part + "_bias");
    const std::size_t out = b.size() / static_cast<std::size_t>(experts_);
    const bool packed = packed_.count(layer + "mlp.experts." + part) != 0;
    Row y;
    for (std::size_t o = 0; o < out; ++o) {
      double total = double{b[e * out + o]};
      for (std::size_t i = 0; i < in.size(); ++i) {
        total +=
            in[i] * double{w[e * out * in.size() + (packed ? o * in.size() + i : i * out + o)]};
      }
      y.push_back(total);
    }
    return y;
  };
  const Row both = times("gate_up_proj", x);
  for (std::size_t i = 0; i < both.size(); i += 2) made.push_back(activated(both[i], both[i + 1]));
  return times("down_proj", made);
}

/// Σ p_e · expert_e(x) over the experts with the largest p.
Row NaiveModel::experts(const std::string& layer, const Row& x) const {
  const std::string router = layer + (family_ == "Mixtral"  ? "block_sparse_moe.gate"
                                      : family_ == "GptOss" ? "mlp.router"
                                                            : "mlp.gate");
  const Row logits = product(router, x);
  std::vector<std::pair<double, int>> order;
  double all = 0.0, taken = 0.0;
  for (int e = 0; e < experts_; ++e) {
    order.emplace_back(std::exp(logits[e]), e);
    all += order.back().first;
  }
  std::sort(order.begin(), order.end(), std::greater<>());
  order.resize(static_cast<std::size_t>(experts_per_token_));
  for (const auto& [weight, e] : order) taken += weight;
  Row y(x.size(), 0.0);
  for (const auto& [weight, e] : order) {
    const Row output = expert(layer, e, x);
    const double p = weight / (normalised_ ? taken : all);
    for (std::size_t i = 0; i < y.size(); ++i) y[i] += p * output[i];
  }
  return y;
}

Row NaiveModel::mlp(const std::string& layer, const Row& x) const {
  if (!has(layer + "mlp.down_proj")) return experts(layer, x);
  Row gate = own_product(layer, "mlp.gate_proj", x);
  const Row up = own_product(layer, "mlp.up_proj", x);
  for (std::size_t i = 0; i < gate.size(); ++i) gate[i] = activated(gate[i], up[i]);
  return product(layer + "mlp.down_proj", gate);
}

Row NaiveModel::added(const Row& h, const Row& y, const std::string& norm_name) const {
  Row whole = norm_name.empty() ? y : norm(norm_name, y);
  for (double& coordinate : whole) coordinate *= residual_factor_;
  return sum(h, whole);
}

void NaiveModel::run_layer(int layer, const Block& block, bool compact, Rows& hidden,
                           NaiveStates& states, NaiveCaches& caches) const {
  const std::string name = "model.layers." + std::to_string(layer) + ".";
  const Rope& rope = ropes_[layer];
  for (int t = block.first; t < block.end; ++t) {
    const Row x = attention_input(layer, hidden[t - block.first]);
    const Row q = own_product(name, "self_attn.q_proj", x);
    const Row k = own_product(name, "self_attn.k_proj", x);
    const Row v = own_product(name, "self_attn.v_proj", x);
    for (int h = 0; h < num_heads; ++h) {
      states.query[h].push_back(turned_head(q, h, name + "self_attn.q_norm", t, rope));
    }
    for (int h = 0; h < num_kv_heads; ++h) {
      states.key[h].push_back(turned_head(k, h, name + "self_attn.k_norm", t, rope));
      states.value[h].push_back(part(v, h, head_dim));
      caches[h].push_back({t, states.key[h].back(), states.value[h].back(), 0.0});
    }
  }
  // A norm after each half makes post_attention_layernorm one of the attention's output.
  const std::string output_norm = name + "post_feedforward_layernorm";
  const bool after = has(output_norm);
  const std::string between = name + "post_attention_layernorm";
  const std::string before_mlp = after ? name + "pre_feedforward_layernorm" : between;
  for (int t = block.first; t < block.end; ++t) {
    Row& h_t = hidden[t - block.first];
    Row joined;
    for (int h = 0; h < num_heads; ++h) {
      const auto kv = static_cast<std::size_t>(h / (num_heads / num_kv_heads));
      const Row output = attend(states.query[h][t], t, caches[kv], compact, layer, h);
      joined.insert(joined.end(), output.begin(), output.end());
    }
    h_t = added(h_t, product(name + "self_attn.o_proj", joined), after ? between : "");
    const Row x = has(before_mlp) ? norm(before_mlp, h_t) : h_t;
    h_t = added(h_t, mlp(name, x), after ? output_norm : "");
  }
}

NaiveModel::Result NaiveModel::run(const std::vector<std::int32_t>& ids) const {
  return run(ids, {{0, static_cast<int>(ids.size())}}, {}, false);
}

NaiveModel::Result NaiveModel::run(const std::vector<std::int32_t>& ids,
                                   const std::vector<Block>& blocks, const NaiveCut& cut,
                                   bool compact) const {
  const std::vector<float>& embedding = weights_.at("model.embed_tokens.weight");
  Result result;
  std::vector<NaiveCaches> caches;
  for (int layer = 0; layer < num_layers; ++layer) {
    NaiveStates states;
    states.query.resize(static_cast<std::size_t>(num_heads));
    states.key.resize(static_cast<std::size_t>(num_kv_heads));
    states.value.resize(static_cast<std::size_t>(num_kv_heads));
    result.layers.push_back(std::move(states));
    caches.emplace_back(static_cast<std::size_t>(num_kv_heads));
  }
  result.hidden.resize(static_cast<std::size_t>(num_layers));
  result.plain_residual = !has("model.layers.0.post_feedforward_layernorm") &&
                          residual_factor_ == 1.0 && logits_divisor_ == 1.0 && logits_cap_ == 0.0;
  for (std::size_t step = 0; step < blocks.size(); ++step) {
    const Block& block = blocks[step];
    Rows hidden;
    for (int t = block.first; t < block.end; ++t) {
      const auto begin = embedding.begin() + static_cast<std::ptrdiff_t>(ids[t]) * hidden_size;
      hidden.emplace_back(begin, begin + hidden_size);
      for (double& coordinate : hidden.back()) coordinate *= embedding_factor_;
    }
    for (int layer = 0; layer < num_layers; ++layer) {
      run_layer(layer, block, compact, hidden, result.layers[layer], caches[layer]);
      if (cut) cut(layer, static_cast<int>(step), caches[layer]);
      result.hidden[layer].insert(result.hidden[layer].end(), hidden.begin(), hidden.end());
    }
    for (const Row& h_t : hidden) {
      result.normed.push_back(norm("model.norm", h_t));
      Row logits = product(tied_ ? "model.embed_tokens" : "lm_head", result.normed.back());
      for (double& logit : logits) logit = capped(logit / logits_divisor_, logits_cap_);
      const double largest = *std::max_element(logits.begin(), logits.end());
      double total = 0;
      for (const double logit : logits) total += std::exp(logit - largest);
      for (double& logit : logits) logit -= largest + std::log(total);
      result.log_probabilities.push_back(std::move(logits));
    }
  }
  return result;
}

}  // namespace kvloupe::test
