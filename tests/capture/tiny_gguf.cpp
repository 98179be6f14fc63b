// TinyCheckpoint as a GGUF file, as the format's own converter would write it.
#include <cmath>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>
#include <numbers>

#include "tests/capture/tiny_checkpoint.h"

namespace kvloupe::test {

namespace {

constexpr std::uint32_t kF32 = 0;

const std::map<std::string, std::string> kParts{
    {"input_layernorm", "attn_norm"},    {"self_attn.q_proj", "attn_q"},
    {"self_attn.k_proj", "attn_k"},      {"self_attn.v_proj", "attn_v"},
    {"self_attn.o_proj", "attn_output"}, {"self_attn.q_norm", "attn_q_norm"},
    {"self_attn.k_norm", "attn_k_norm"}, {"post_attention_layernorm", "ffn_norm"},
    {"mlp.gate_proj", "ffn_gate"},       {"mlp.up_proj", "ffn_up"},
    {"mlp.down_proj", "ffn_down"}};

std::string gguf_name(const std::string& name) {
  if (name == "model.embed_tokens.weight") return "token_embd.weight";
  if (name == "model.norm.weight") return "output_norm.weight";
  if (name == "lm_head.weight") return "output.weight";
  std::string rest = name.substr(std::string("model.layers.").size());
  const std::string layer = rest.substr(0, rest.find('.'));
  rest = rest.substr(layer.size() + 1);
  const std::size_t dot = rest.rfind('.');
  return "blk." + layer + "." + kParts.at(rest.substr(0, dot)) + rest.substr(dot);
}

/// The rows of each head in the order 0 and d/2, then 1 and d/2 + 1, …
std::string interleaved(const std::string& bytes, int rows, int head_dim) {
  const std::size_t row = bytes.size() / static_cast<std::size_t>(rows);
  std::string result;
  for (int head = 0; head < rows / head_dim; ++head) {
    for (int j = 0; j < head_dim / 2; ++j) {
      for (const int half : {0, head_dim / 2}) {
        result += bytes.substr(static_cast<std::size_t>(head * head_dim + half + j) * row, row);
      }
    }
  }
  return result;
}

/// The factors that llama.cpp's converter stores for Llama 3's scaling.
std::vector<float> llama3_factors(const nlohmann::json& scaling, double theta, int head_dim) {
  const double factor = scaling["factor"], low = scaling["low_freq_factor"],
               high = scaling["high_freq_factor"],
               context = scaling["original_max_position_embeddings"];
  std::vector<float> factors;
  for (int j = 0; j < head_dim; j += 2) {
    const float frequency = 1.0F / std::pow(static_cast<float>(theta),
                                            static_cast<float>(j) / static_cast<float>(head_dim));
    const double wavelength = 2.0 * std::numbers::pi / static_cast<double>(frequency);
    if (wavelength < context / high) {
      factors.push_back(1.0F);
    } else if (wavelength > context / low) {
      factors.push_back(static_cast<float>(factor));
    } else {
      const double smooth = (context / wavelength - low) / (high - low);
      factors.push_back(static_cast<float>(1.0 / ((1.0 - smooth) / factor + smooth)));
    }
  }
  return factors;
}

}  // namespace

GgufBytes TinyCheckpoint::gguf() const {
  const auto config = nlohmann::json::parse(config_text());
  const std::string arch = architecture == "Qwen2ForCausalLM"   ? "qwen2"
                           : architecture == "Qwen3ForCausalLM" ? "qwen3"
                                                                : "llama";
  GgufBytes file;
  const auto size = [&](const char* key, int value) {
    file.whole(arch + "." + key, static_cast<std::uint32_t>(value));
  };
  file.text("general.architecture", arch).text("general.name", "Tiny 1");
  size("block_count", layers);
  size("context_length", max_position_embeddings);
  size("embedding_length", hidden_size);
  size("feed_forward_length", intermediate_size);
  size("attention.head_count", heads);
  size("attention.head_count_kv", kv_heads);
  size("attention.key_length", head_dim);
  size("attention.value_length", head_dim);
  size("rope.dimension_count", head_dim);
  file.real(arch + ".attention.layer_norm_rms_epsilon", 1e-5F);
  file.real(arch + ".rope.freq_base", 500.0F);
  if (config.contains("sliding_window") && config["sliding_window"].is_number() && arch == "llama")
    size("attention.sliding_window", config["sliding_window"]);
  const auto& scaling = config["rope_scaling"];
  if (scaling.is_object()) {
    const std::string type = scaling.value("rope_type", scaling.value("type", ""));
    if (type == "llama3") {
      const std::vector<float> factors = llama3_factors(scaling, 500.0, head_dim);
      file.tensor("rope_freqs.weight", {head_dim / 2}, kF32,
                  {reinterpret_cast<const char*>(factors.data()), factors.size() * sizeof(float)});
    } else if (type == "linear" || type == "yarn") {
      file.text(arch + ".rope.scaling.type", type);
      file.real(arch + ".rope.scaling.factor", scaling["factor"]);
      if (scaling.contains("original_max_position_embeddings"))
        size("rope.scaling.original_context_length", scaling["original_max_position_embeddings"]);
    }
  }
  for (const Weight& weight : weights()) {
    const bool turned = arch == "llama" && (weight.name.find("q_proj") != std::string::npos ||
                                            weight.name.find("k_proj") != std::string::npos);
    file.tensor(gguf_name(weight.name), {weight.shape.begin(), weight.shape.end()}, kF32,
                turned ? interleaved(weight.bytes, weight.shape[0], head_dim) : weight.bytes);
  }
  return file;
}

}  // namespace kvloupe::test
