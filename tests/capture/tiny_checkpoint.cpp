#include "tests/capture/tiny_checkpoint.h"

#include <cmath>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>

namespace kvloupe::test {

std::string TinyCheckpoint::config_text() const {
  nlohmann::json config{{"architectures", {architecture}},
                        {"hidden_size", hidden_size},
                        {"intermediate_size", intermediate_size},
                        {"num_hidden_layers", layers},
                        {"num_attention_heads", heads},
                        {"num_key_value_heads", kv_heads},
                        {"head_dim", head_dim},
                        {"vocab_size", vocab_size},
                        {"max_position_embeddings", max_position_embeddings},
                        {"hidden_act", "silu"},
                        {"rms_norm_eps", 1e-5},
                        {"rope_theta", 500.0},
                        {"rope_scaling", nullptr},
                        {"tie_word_embeddings", tied}};
  config.update(nlohmann::json::parse(more));
  return config.dump();
}

std::string safetensors_bytes(const std::string& header, const std::string& data) {
  const std::uint64_t size = header.size();
  std::string bytes(8, '\0');
  std::memcpy(bytes.data(), &size, 8);
  return bytes + header + data;
}

void write_file(const std::filesystem::path& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
}

std::string read_file_bytes(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::vector<TinyCheckpoint::Weight> TinyCheckpoint::weights() const {
  const auto config = nlohmann::json::parse(config_text());
  const bool query_bias =
      architecture == "Qwen2ForCausalLM" || config.value("attention_bias", false);
  const bool output_bias = config.value("attention_bias", false);
  const bool mlp_bias = config.value("mlp_bias", false);

  std::mt19937 random(seed);
  std::vector<Weight> all;
  const auto add = [&](const std::string& name, std::vector<int> shape, float mean, float spread) {
    std::size_t count = 1;
    for (const int size : shape) count *= static_cast<std::size_t>(size);
    std::normal_distribution<float> normal(mean, spread);
    std::string bytes;
    for (std::size_t i = 0; i < count; ++i) {
      const float value = normal(random);
      bytes.append(reinterpret_cast<const char*>(&value), 4);
    }
    all.push_back({name, std::move(shape), std::move(bytes)});
  };
  const auto norm = [&](const std::string& name, int size) {
    add(name + ".weight", {size}, 1.0F, 0.2F);
  };
  const auto matrix = [&](const std::string& name, int out, int in, bool bias = false) {
    add(name + ".weight", {out, in}, 0.0F, 1.5F / std::sqrt(static_cast<float>(in)));
    if (bias) add(name + ".bias", {out}, 0.0F, 0.5F);
  };
  matrix("model.embed_tokens", vocab_size, hidden_size);
  for (int layer = 0; layer < layers; ++layer) {
    const std::string name = "model.layers." + std::to_string(layer) + ".";
    norm(name + "input_layernorm", hidden_size);
    matrix(name + "self_attn.q_proj", heads * head_dim, hidden_size, query_bias);
    matrix(name + "self_attn.k_proj", kv_heads * head_dim, hidden_size, query_bias);
    matrix(name + "self_attn.v_proj", kv_heads * head_dim, hidden_size, query_bias);
    if (architecture == "Qwen3ForCausalLM") {
      norm(name + "self_attn.q_norm", head_dim);
      norm(name + "self_attn.k_norm", head_dim);
    }
    matrix(name + "self_attn.o_proj", hidden_size, heads * head_dim, output_bias);
    norm(name + "post_attention_layernorm", hidden_size);
    matrix(name + "mlp.gate_proj", intermediate_size, hidden_size, mlp_bias);
    matrix(name + "mlp.up_proj", intermediate_size, hidden_size, mlp_bias);
    matrix(name + "mlp.down_proj", hidden_size, intermediate_size, mlp_bias);
  }
  norm("model.norm", hidden_size);
  if (!tied) matrix("lm_head", vocab_size, hidden_size);
  return all;
}

void TinyCheckpoint::write(const std::filesystem::path& folder) const {
  write_sharded(folder, 1);
  std::filesystem::rename(folder / "model-1.safetensors", folder / "model.safetensors");
  std::filesystem::remove(folder / "model.safetensors.index.json");
}

void TinyCheckpoint::write_sharded(const std::filesystem::path& folder, int shards) const {
  write_file(folder / "config.json", config_text());
  std::vector<nlohmann::ordered_json> headers(static_cast<std::size_t>(shards));
  std::vector<std::string> data(headers.size());
  nlohmann::json index;
  std::size_t shard = 0;  // the next weight's, one after the other
  for (const Weight& weight : weights()) {
    const std::size_t begin = data[shard].size();
    data[shard] += weight.bytes;
    headers[shard][weight.name] = {
        {"dtype", "F32"}, {"shape", weight.shape}, {"data_offsets", {begin, data[shard].size()}}};
    index["weight_map"][weight.name] = "model-" + std::to_string(shard + 1) + ".safetensors";
    shard = (shard + 1) % headers.size();
  }
  for (std::size_t i = 0; i < headers.size(); ++i) {
    std::string header = headers[i].dump();
    header.append((8 - header.size() % 8) % 8,
                  ' ');  // so that numbers are aligned, as in real files
    write_file(folder / ("model-" + std::to_string(i + 1) + ".safetensors"),
               safetensors_bytes(header, data[i]));
  }
  write_file(folder / "model.safetensors.index.json", index.dump());
}

std::string random_ids_text(int count, int vocab_size, unsigned seed) {
  std::mt19937 random(seed);
  std::string text;
  for (int i = 0; i < count; ++i) {
    text +=
        std::to_string(random() % static_cast<unsigned>(vocab_size)) + (i % 7 == 6 ? "\n" : " ");
  }
  return text;
}

std::filesystem::path stories_folder() {
  return std::filesystem::path(KVLOUPE_SOURCE_DIR) / ".." / "shared" / "models" / "stories260K";
}

}  // namespace kvloupe::test
