#include "tests/capture/tiny_checkpoint.h"

#include <cmath>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>

namespace kvloupe::test {

std::string TinyCheckpoint::config_text() const {
  const nlohmann::json config{{"architectures", {"LlamaForCausalLM"}},
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

void TinyCheckpoint::write(const std::filesystem::path& folder) const {
  write_file(folder / "config.json", config_text());
  std::mt19937 random(seed);
  nlohmann::ordered_json header;
  std::string data;
  const auto add = [&](const std::string& name, std::vector<int> shape) {
    std::size_t count = 1;
    for (const int size : shape) count *= static_cast<std::size_t>(size);
    const bool is_norm = shape.size() == 1;
    std::normal_distribution<float> normal(
        is_norm ? 1.0F : 0.0F, is_norm ? 0.2F : 1.5F / std::sqrt(static_cast<float>(shape.back())));
    const std::size_t begin = data.size();
    for (std::size_t i = 0; i < count; ++i) {
      const float value = normal(random);
      data.append(reinterpret_cast<const char*>(&value), 4);
    }
    header[name + ".weight"] = {
        {"dtype", "F32"}, {"shape", shape}, {"data_offsets", {begin, data.size()}}};
  };
  add("model.embed_tokens", {vocab_size, hidden_size});
  for (int layer = 0; layer < layers; ++layer) {
    const std::string name = "model.layers." + std::to_string(layer) + ".";
    add(name + "input_layernorm", {hidden_size});
    add(name + "self_attn.q_proj", {heads * head_dim, hidden_size});
    add(name + "self_attn.k_proj", {kv_heads * head_dim, hidden_size});
    add(name + "self_attn.v_proj", {kv_heads * head_dim, hidden_size});
    add(name + "self_attn.o_proj", {hidden_size, heads * head_dim});
    add(name + "post_attention_layernorm", {hidden_size});
    add(name + "mlp.gate_proj", {intermediate_size, hidden_size});
    add(name + "mlp.up_proj", {intermediate_size, hidden_size});
    add(name + "mlp.down_proj", {hidden_size, intermediate_size});
  }
  add("model.norm", {hidden_size});
  if (!tied) add("lm_head", {vocab_size, hidden_size});
  write_file(folder / "model.safetensors", safetensors_bytes(header.dump(), data));
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
