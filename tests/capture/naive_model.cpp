#include "tests/capture/naive_model.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
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

Row sum(const Row& a, const Row& b) {
  Row c(a.size());
  for (std::size_t i = 0; i < a.size(); ++i) c[i] = a[i] + b[i];
  return c;
}

}  // namespace

NaiveModel::NaiveModel(const std::filesystem::path& folder) {
  const auto config = nlohmann::json::parse(read_all(folder / "config.json"));
  num_layers = config["num_hidden_layers"];
  num_heads = config["num_attention_heads"];
  num_kv_heads = config["num_key_value_heads"];
  hidden_size = config["hidden_size"];
  vocab_size = config["vocab_size"];
  head_dim = config["head_dim"];
  rms_norm_eps_ = config["rms_norm_eps"];
  rope_theta_ = config["rope_theta"];
  tied_ = config["tie_word_embeddings"];
  if (config.contains("sliding_window") && config["sliding_window"].is_number() &&
      config.value("use_sliding_window", true)) {
    window = config["sliding_window"];
  }
  if (const auto scaling = config["rope_scaling"]; scaling.is_object()) {
    rope_type_ = scaling.contains("rope_type") ? scaling["rope_type"] : scaling["type"];
    if (rope_type_ != "default" && rope_type_ != "yarn") rope_factor_ = scaling["factor"];
    if (rope_type_ == "yarn") read_yarn(scaling, config["max_position_embeddings"]);
    if (rope_type_ == "llama3") {
      low_factor_ = scaling["low_freq_factor"];
      high_factor_ = scaling["high_freq_factor"];
      original_context_ = scaling["original_max_position_embeddings"];
    }
  }

  const std::string file = read_all(folder / "model.safetensors");
  std::uint64_t header_size = 0;
  std::memcpy(&header_size, file.data(), 8);
  const auto header = nlohmann::json::parse(file.substr(8, header_size));
  for (const auto& [name, entry] : header.items()) {
    if (name == "__metadata__") continue;
    if (entry["dtype"] != "F32") throw std::runtime_error("the naive model reads F32 only");
    const std::size_t begin = entry["data_offsets"][0], end = entry["data_offsets"][1];
    std::vector<float> values((end - begin) / 4);
    std::memcpy(values.data(), file.data() + 8 + header_size + begin, end - begin);
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
  return norm("model.layers." + std::to_string(layer) + ".input_layernorm", hidden);
}

Row NaiveModel::norm(const std::string& weight, const Row& x) const {
  const std::vector<float>& w = weights_.at(weight + ".weight");
  const double mean_square = dot(x, x) / static_cast<double>(x.size());
  Row y(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    y[i] = x[i] / std::sqrt(mean_square + rms_norm_eps_) * double{w[i]};
  }
  return y;
}

/// As Transformers computes it, from a rope_scaling that names the differences from the defaults.
void NaiveModel::read_yarn(const nlohmann::json& scaling, double positions) {
  const double context = scaling.value("original_max_position_embeddings", positions);
  rope_factor_ = scaling["factor"].is_null() ? positions / context : double{scaling["factor"]};
  const auto pair_with = [&](double turns) {
    return static_cast<double>(head_dim) *
           std::log(context / turns / 2.0 / 3.14159265358979323846) / 2.0 / std::log(rope_theta_);
  };
  yarn_first_ = pair_with(scaling.value("beta_fast", 32.0));
  yarn_last_ = pair_with(scaling.value("beta_slow", 1.0));
  if (scaling.value("truncate", true)) {
    yarn_first_ = std::floor(yarn_first_);
    yarn_last_ = std::ceil(yarn_last_);
  }
  if (yarn_first_ < 0.0) yarn_first_ = 0.0;
  const double log_factor = 0.1 * std::log(rope_factor_);
  if (scaling.contains("attention_factor")) {
    stretch_ = scaling["attention_factor"];
  } else if (scaling.contains("mscale")) {
    stretch_ = (1.0 + log_factor * double{scaling["mscale"]}) /
               (1.0 + log_factor * double{scaling["mscale_all_dim"]});
  } else {
    stretch_ = 1.0 + log_factor;
  }
}

/// theta^(−2j/d). Linear scaling divides it. Llama 3's looks at the wavelength: a short one stays,
/// a long one is divided, and between them the two are blended.
double NaiveModel::frequency(std::size_t pair) const {
  const double plain =
      std::pow(rope_theta_, -2.0 * static_cast<double>(pair) / static_cast<double>(head_dim));
  if (rope_type_ == "linear") return plain / rope_factor_;
  if (rope_type_ == "yarn") {
    const double at = static_cast<double>(pair);
    if (at <= yarn_first_) return plain;
    if (at >= yarn_last_) return plain / rope_factor_;
    const double gone = (at - yarn_first_) / (yarn_last_ - yarn_first_);
    return plain / rope_factor_ * gone + plain * (1.0 - gone);
  }
  if (rope_type_ != "llama3") return plain;
  const double wavelength = 2.0 * 3.14159265358979323846 / plain;
  if (wavelength < original_context_ / high_factor_) return plain;
  if (wavelength > original_context_ / low_factor_) return plain / rope_factor_;
  const double smooth =
      (original_context_ / wavelength - low_factor_) / (high_factor_ - low_factor_);
  return (1.0 - smooth) * plain / rope_factor_ + smooth * plain;
}

/// The pair (j, j + d/2) turns by position · its frequency.
Row NaiveModel::rotated(const Row& x, int position) const {
  const std::size_t half = x.size() / 2;
  Row y(x.size());
  for (std::size_t j = 0; j < half; ++j) {
    const double angle = position * frequency(j);
    y[j] = x[j] * std::cos(angle) - x[j + half] * std::sin(angle);
    y[j + half] = x[j + half] * std::cos(angle) + x[j] * std::sin(angle);
  }
  return y;
}

Row NaiveModel::turned_head(const Row& x, int head, const std::string& norm_name,
                            int position) const {
  const Row own = part(x, head, head_dim);
  Row y =
      rotated(weights_.count(norm_name + ".weight") != 0 ? norm(norm_name, own) : own, position);
  for (double& coordinate : y) coordinate *= stretch_;
  return y;
}

Row naive_attention_row(const Row& query, const Rows& keys, std::size_t last, double scale,
                        double* logsumexp, int window) {
  Row row(last + 1, -1e300);
  for (std::size_t j = 0; j <= last; ++j) {
    if (window == 0 || last - j < static_cast<std::size_t>(window)) {
      row[j] = scale * dot(query, keys[j]);
    }
  }
  const double largest = *std::max_element(row.begin(), row.end());
  double total = 0;
  for (const double logit : row) total += std::exp(logit - largest);
  for (double& entry : row) entry = std::exp(entry - largest) / total;
  if (logsumexp != nullptr) *logsumexp = largest + std::log(total);
  return row;
}

/// Σ_j softmax_j(q·k_j/√d + log size_j) v_j over the entries that are not after the query and not
/// before its window.
Row NaiveModel::attend(const Row& query, int query_token, const std::vector<NaiveEntry>& cache,
                       bool compact) const {
  Rows keys;
  std::vector<double> log_sizes;
  std::size_t seen = 0;
  while (seen < cache.size() && cache[seen].token <= query_token) ++seen;
  for (std::size_t place = 0; place < seen; ++place) {
    const int moved = compact ? static_cast<int>(place) - cache[place].token : 0;
    keys.push_back(moved == 0 ? cache[place].key : rotated(cache[place].key, moved));
    log_sizes.push_back(cache[place].log_size);
  }
  // The query's token is the last entry it sees, and shares its place.
  const int moved = compact ? static_cast<int>(seen) - 1 - query_token : 0;
  const Row q = moved == 0 ? query : rotated(query, moved);
  Row weights(seen);
  double largest = -1e300, total = 0;
  for (std::size_t j = 0; j < seen; ++j) {
    weights[j] = dot(q, keys[j]) / std::sqrt(static_cast<double>(head_dim)) + log_sizes[j];
    if (window > 0 && query_token - cache[j].token >= window) weights[j] = -1e300;
    largest = std::max(largest, weights[j]);
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

void NaiveModel::run_layer(int layer, const Block& block, bool compact, Rows& hidden,
                           NaiveStates& states, NaiveCaches& caches) const {
  const std::string name = "model.layers." + std::to_string(layer) + ".";
  for (int t = block.first; t < block.end; ++t) {
    const Row x = norm(name + "input_layernorm", hidden[static_cast<std::size_t>(t - block.first)]);
    const Row q = product(name + "self_attn.q_proj", x);
    const Row k = product(name + "self_attn.k_proj", x);
    const Row v = product(name + "self_attn.v_proj", x);
    for (int h = 0; h < num_heads; ++h) {
      states.query[static_cast<std::size_t>(h)].push_back(
          turned_head(q, h, name + "self_attn.q_norm", t));
    }
    for (int h = 0; h < num_kv_heads; ++h) {
      const auto kv = static_cast<std::size_t>(h);
      states.key[kv].push_back(turned_head(k, h, name + "self_attn.k_norm", t));
      states.value[kv].push_back(part(v, h, head_dim));
      caches[kv].push_back({t, states.key[kv].back(), states.value[kv].back(), 0.0});
    }
  }
  for (int t = block.first; t < block.end; ++t) {
    Row& h_t = hidden[static_cast<std::size_t>(t - block.first)];
    Row joined;
    for (int h = 0; h < num_heads; ++h) {
      const auto kv = static_cast<std::size_t>(h / (num_heads / num_kv_heads));
      const Row output =
          attend(states.query[static_cast<std::size_t>(h)][static_cast<std::size_t>(t)], t,
                 caches[kv], compact);
      joined.insert(joined.end(), output.begin(), output.end());
    }
    h_t = sum(h_t, product(name + "self_attn.o_proj", joined));
    const Row x = norm(name + "post_attention_layernorm", h_t);
    Row gate = product(name + "mlp.gate_proj", x);
    const Row up = product(name + "mlp.up_proj", x);
    for (std::size_t i = 0; i < gate.size(); ++i)
      gate[i] = gate[i] / (1 + std::exp(-gate[i])) * up[i];
    h_t = sum(h_t, product(name + "mlp.down_proj", gate));
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
  for (std::size_t step = 0; step < blocks.size(); ++step) {
    const Block& block = blocks[step];
    Rows hidden;
    for (int t = block.first; t < block.end; ++t) {
      const auto begin =
          embedding.begin() +
          static_cast<std::ptrdiff_t>(ids[static_cast<std::size_t>(t)]) * hidden_size;
      hidden.emplace_back(begin, begin + hidden_size);
    }
    for (int layer = 0; layer < num_layers; ++layer) {
      const auto index = static_cast<std::size_t>(layer);
      run_layer(layer, block, compact, hidden, result.layers[index], caches[index]);
      if (cut) cut(layer, static_cast<int>(step), caches[index]);
      result.hidden[index].insert(result.hidden[index].end(), hidden.begin(), hidden.end());
    }
    for (const Row& h_t : hidden) {
      result.normed.push_back(norm("model.norm", h_t));
      Row logits = product(tied_ ? "model.embed_tokens" : "lm_head", result.normed.back());
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
