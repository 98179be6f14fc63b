// TinyCheckpoint as a GGUF file, as the format's own converter would write it.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <initializer_list>
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
    {"mlp.down_proj", "ffn_down"},       {"self_attn.qkv_proj", "attn_qkv"},
    {"mlp.gate_up_proj", "ffn_up"},      {"pre_feedforward_layernorm", "ffn_norm"},
    {"mlp.gate", "ffn_gate_inp"},        {"post_feedforward_layernorm", "post_ffw_norm"},
    {"mlp.router", "ffn_gate_inp"},      {"block_sparse_moe.gate", "ffn_gate_inp"}};

const std::map<std::string, std::string> kArchitectures{
    {"Llama", "llama"},   {"Mistral", "llama"}, {"Mixtral", "llama"},   {"Qwen2", "qwen2"},
    {"Qwen3", "qwen3"},   {"Phi3", "phi3"},     {"Granite", "granite"}, {"SmolLM3", "smollm3"},
    {"Olmo2", "olmo2"},   {"Gemma2", "gemma2"}, {"Gemma3", "gemma3"},   {"Qwen3Moe", "qwen3moe"},
    {"GptOss", "gpt-oss"}};

bool is_any(const std::string& name, std::initializer_list<const char*> names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

std::string gguf_name(const std::string& arch, const std::string& name) {
  if (name == "model.embed_tokens.weight") return "token_embd.weight";
  if (name == "model.norm.weight") return "output_norm.weight";
  if (name == "lm_head.weight") return "output.weight";
  std::string rest = name.substr(std::string("model.layers.").size());
  const std::string layer = rest.substr(0, rest.find('.'));
  rest = rest.substr(layer.size() + 1);
  if (rest == "self_attn.sinks") return "blk." + layer + ".attn_sinks.weight";
  const std::size_t dot = rest.rfind('.');
  if (rest == "post_attention_layernorm.weight" &&
      is_any(arch, {"gemma2", "gemma3", "olmo2", "gpt-oss"})) {
    return "blk." + layer + ".post_attention_norm.weight";
  }
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

std::string one_more(const std::string& bytes) {
  std::string result = bytes;
  for (std::size_t i = 0; i < bytes.size(); i += 4) {
    float number = 0.0F;
    std::memcpy(&number, &bytes[i], 4);
    number += 1.0F;
    std::memcpy(&result[i], &number, 4);
  }
  return result;
}

/// gpt-oss's experts: [E, in, out] becomes [E, out, in], the outputs of gate and up apart.
template <typename Weight, typename Add>
void add_gpt_oss_experts(const std::string& layer, const Weight& weight, const Add& add) {
  const bool bias = weight.name.ends_with("_bias");
  const bool both = weight.name.find("gate_up_proj") != std::string::npos;
  const int experts = weight.shape[0], in = bias ? 1 : weight.shape[1], out = weight.shape.back();
  const std::string end = bias ? "_exps.bias" : "_exps.weight";
  for (int first = 0; first < (both ? 2 : 1); ++first) {
    std::string bytes;
    for (int e = 0; e < experts; ++e) {
      for (int o = first; o < out; o += both ? 2 : 1) {
        for (int i = 0; i < in; ++i) {
          bytes += weight.bytes.substr(static_cast<std::size_t>((e * in + i) * out + o) * 4, 4);
        }
      }
    }
    std::vector<int> shape{experts, both ? out / 2 : out};
    if (!bias) shape.push_back(in);
    add(layer + (!both ? "ffn_down" : first == 0 ? "ffn_gate" : "ffn_up") + end, shape, bytes);
  }
}

}  // namespace

GgufBytes TinyCheckpoint::gguf() const {
  const auto config = nlohmann::json::parse(config_text());
  const std::string family = architecture.substr(0, architecture.find("ForCausalLM"));
  const std::string arch = kArchitectures.at(family);
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
  if (config.contains("sliding_window") && config["sliding_window"].is_number() &&
      !is_any(family, {"Qwen2", "Qwen3"})) {
    size("attention.sliding_window", config["sliding_window"]);
  }
  const auto real = [&](const char* key, const char* field) {
    if (config.contains(field)) file.real(arch + "." + key, config[field].get<float>());
  };
  real("attn_logit_softcapping", "attn_logit_softcapping");
  real("final_logit_softcapping", "final_logit_softcapping");
  real("attention.scale", "attention_multiplier");
  real("embedding_scale", "embedding_multiplier");
  real("residual_scale", "residual_multiplier");
  real("logit_scale", "logits_scaling");
  real("rope.freq_base_swa", "rope_local_base_freq");
  const auto whole = [&](const char* key, const char* field) {
    if (config.contains(field)) size(key, config[field]);
  };
  whole("expert_count", "num_local_experts");
  whole("expert_count", "num_experts");
  whole("expert_used_count", "num_experts_per_tok");
  whole("expert_feed_forward_length", "moe_intermediate_size");
  whole("attention.sliding_window_pattern", "sliding_window_pattern");
  if (family == "GptOss") size("expert_feed_forward_length", config["intermediate_size"]);
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
  std::map<std::string, std::string> stacks;  // the experts of a part, joined
  std::map<std::string, std::vector<int>> stack_shapes;
  const auto add = [&](const std::string& name, const std::vector<int>& shape,
                       const std::string& bytes) {
    file.tensor(name, {shape.begin(), shape.end()}, kF32, bytes);
  };
  for (const Weight& weight : weights()) {
    const std::string& name = weight.name;
    const std::string layer =
        name.starts_with("model.layers.") ? "blk." + name.substr(13, name.find('.', 13) - 12) : "";
    if (name.find("mlp.experts.gate_up_proj") != std::string::npos ||
        name.find("mlp.experts.down_proj") != std::string::npos) {
      add_gpt_oss_experts(layer, weight, add);
      continue;
    }
    if (const std::size_t at = name.find(".experts."); at != std::string::npos) {
      const std::string part = name.substr(name.find('.', at + 9) + 1);
      const std::string own = is_any(part, {"w1.weight", "gate_proj.weight"}) ? "ffn_gate_exps"
                              : is_any(part, {"w3.weight", "up_proj.weight"}) ? "ffn_up_exps"
                                                                              : "ffn_down_exps";
      stacks[layer + own + ".weight"] += weight.bytes;
      std::vector<int>& shape = stack_shapes[layer + own + ".weight"];
      if (shape.empty()) shape = {0, weight.shape[0], weight.shape[1]};
      ++shape[0];
      continue;
    }
    const bool turned =
        is_any(arch, {"llama", "granite", "smollm3"}) &&
        (name.find("q_proj") != std::string::npos || name.find("k_proj") != std::string::npos);
    std::string bytes =
        turned ? interleaved(weight.bytes, weight.shape[0], head_dim) : weight.bytes;
    if (arch.starts_with("gemma") && name.find("norm.") != std::string::npos) {
      bytes = one_more(bytes);  // as they multiply
    }
    add(gguf_name(arch, name), weight.shape, bytes);
  }
  for (const auto& [name, bytes] : stacks) add(name, stack_shapes[name], bytes);
  return file;
}

}  // namespace kvloupe::test
