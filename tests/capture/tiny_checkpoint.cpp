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

std::vector<TinyCheckpoint::Weight> TinyCheckpoint::weights() const {
  const auto config = nlohmann::json::parse(config_text());
  const auto is = [&](const char* name) {
    return architecture == name + std::string("ForCausalLM");
  };
  const bool gemma = is("Gemma2") || is("Gemma3");
  const bool all_biases = config.value("attention_bias", is("GptOss"));
  const bool query_bias = is("Qwen2") || all_biases;
  const bool mlp_bias = config.value("mlp_bias", false);
  const int intermediate = config["intermediate_size"];

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
    add(name + ".weight", {size}, gemma ? 0.0F : 1.0F, 0.2F);  // Gemma's are stored less 1
  };
  const auto spread_of = [](int in) { return 1.5F / std::sqrt(static_cast<float>(in)); };
  const auto matrix = [&](const std::string& name, int out, int in, bool bias = false) {
    add(name + ".weight", {out, in}, 0.0F, spread_of(in));
    if (bias) add(name + ".bias", {out}, 0.0F, 0.5F);
  };
  // Rows of `in` numbers in MXFP4: two of them in a byte, a scale near `spread` for each 32.
  const auto packed = [&](const std::string& name, std::vector<int> shape) {
    shape.back() /= 32;
    std::size_t blocks = 1;
    for (const int size : shape) blocks *= static_cast<std::size_t>(size);
    std::string scales, numbers;
    for (std::size_t i = 0; i < blocks; ++i) {
      scales += static_cast<char>(124 + random() % 2);
      for (int byte = 0; byte < 16; ++byte) numbers += static_cast<char>(random() % 256);
    }
    all.push_back({name + "_scales", shape, std::move(scales), "U8"});
    shape.push_back(16);
    all.push_back({name + "_blocks", shape, std::move(numbers), "U8"});
  };
  const auto gpt_oss_experts = [&](const std::string& name, int count) {
    matrix(name + "mlp.router", count, hidden_size, true);
    const std::string experts = name + "mlp.experts.";
    if (config.contains("quantization_config")) {
      packed(experts + "gate_up_proj", {count, 2 * intermediate, hidden_size});
      packed(experts + "down_proj", {count, hidden_size, intermediate});
    } else {
      add(experts + "gate_up_proj", {count, hidden_size, 2 * intermediate}, 0.0F,
          spread_of(hidden_size));
      add(experts + "down_proj", {count, intermediate, hidden_size}, 0.0F, spread_of(intermediate));
    }
    add(experts + "gate_up_proj_bias", {count, 2 * intermediate}, 0.0F, 0.5F);
    add(experts + "down_proj_bias", {count, hidden_size}, 0.0F, 0.5F);
  };
  const auto mlp = [&](const std::string& name, int layer) {
    const bool dense =
        config.contains("mlp_only_layers") && config["mlp_only_layers"].front() == layer;
    if (is("GptOss")) {
      gpt_oss_experts(name, config["num_local_experts"]);
    } else if (is("Mixtral")) {
      matrix(name + "block_sparse_moe.gate", config["num_local_experts"], hidden_size);
      for (int i = 0; i < config["num_local_experts"]; ++i) {
        const std::string expert = name + "block_sparse_moe.experts." + std::to_string(i);
        matrix(expert + ".w1", intermediate, hidden_size);
        matrix(expert + ".w2", hidden_size, intermediate);
        matrix(expert + ".w3", intermediate, hidden_size);
      }
    } else if (is("Qwen3Moe") && !dense) {
      matrix(name + "mlp.gate", config["num_experts"], hidden_size);
      const int size = config["moe_intermediate_size"];
      for (int i = 0; i < config["num_experts"]; ++i) {
        const std::string expert = name + "mlp.experts." + std::to_string(i);
        matrix(expert + ".gate_proj", size, hidden_size);
        matrix(expert + ".up_proj", size, hidden_size);
        matrix(expert + ".down_proj", hidden_size, size);
      }
    } else {
      if (is("Phi3")) {
        matrix(name + "mlp.gate_up_proj", 2 * intermediate, hidden_size);
      } else {
        matrix(name + "mlp.gate_proj", intermediate, hidden_size, mlp_bias);
        matrix(name + "mlp.up_proj", intermediate, hidden_size, mlp_bias);
      }
      matrix(name + "mlp.down_proj", hidden_size, intermediate, mlp_bias);
    }
  };
  matrix("model.embed_tokens", vocab_size, hidden_size);
  for (int layer = 0; layer < layers; ++layer) {
    const std::string name = "model.layers." + std::to_string(layer) + ".";
    if (!is("Olmo2")) norm(name + "input_layernorm", hidden_size);
    if (is("Phi3")) {
      matrix(name + "self_attn.qkv_proj", (heads + 2 * kv_heads) * head_dim, hidden_size);
    } else {
      matrix(name + "self_attn.q_proj", heads * head_dim, hidden_size, query_bias);
      matrix(name + "self_attn.k_proj", kv_heads * head_dim, hidden_size, query_bias);
      matrix(name + "self_attn.v_proj", kv_heads * head_dim, hidden_size, query_bias);
    }
    if (is("Qwen3") || is("Qwen3Moe") || is("Gemma3")) {
      norm(name + "self_attn.q_norm", head_dim);
      norm(name + "self_attn.k_norm", head_dim);
    }
    if (is("Olmo2")) {
      norm(name + "self_attn.q_norm", heads * head_dim);
      norm(name + "self_attn.k_norm", kv_heads * head_dim);
    }
    if (is("GptOss")) add(name + "self_attn.sinks", {heads}, 0.5F, 1.0F);
    matrix(name + "self_attn.o_proj", hidden_size, heads * head_dim, all_biases);
    norm(name + "post_attention_layernorm", hidden_size);
    if (gemma) norm(name + "pre_feedforward_layernorm", hidden_size);
    if (gemma || is("Olmo2")) norm(name + "post_feedforward_layernorm", hidden_size);
    mlp(name, layer);
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
    headers[shard][weight.name] = {{"dtype", weight.dtype},
                                   {"shape", weight.shape},
                                   {"data_offsets", {begin, data[shard].size()}}};
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
