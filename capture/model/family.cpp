#include "capture/model/family.h"

#include <algorithm>
#include <cmath>
#include <string>

namespace kvloupe {

namespace {

constexpr std::int64_t kMostExperts = 4096;
constexpr std::int64_t kMostExpertsOfAllLayers = std::int64_t{1}
                                                 << 17;  // no model has a fifth of it

/// A mixture of experts in every layer.
void read_experts(const ConfigReader& reader, const char* count, ModelConfig& config) {
  config.experts.count = reader.size(count, kMostExperts);
  if (config.experts.count * config.num_layers > kMostExpertsOfAllLayers) {
    reader.fail(std::string(count) + " " + std::to_string(config.experts.count) + " in each of " +
                std::to_string(config.num_layers) + " layers is more than any model has");
  }
  config.experts.per_token = reader.size("num_experts_per_tok", kMostExperts);
  if (config.experts.per_token > config.experts.count) {
    reader.fail("num_experts_per_tok is greater than " + std::string(count));
  }
  config.experts.intermediate_size = config.intermediate_size;
  for (LayerConfig& layer : config.layers) layer.experts = true;
}

void read_query_scale(const ConfigReader& reader, ModelConfig& config) {
  constexpr double kAssumed = 256.0;
  config.attention_scale = 1.0 / std::sqrt(reader.positive_or("query_pre_attn_scalar", kAssumed));
  if (reader.flag_or("use_bidirectional_attention", false)) {
    reader.fail("use_bidirectional_attention true is not supported: a query sees later keys");
  }
}

/// A cap: `absent` if the field is missing; null is none.
double read_cap(const ConfigReader& reader, const char* field, double absent) {
  if (reader.has(field) && reader.find(field) == nullptr) return 0.0;
  return reader.positive_or(field, absent);
}

}  // namespace

void read_phi3(const ConfigReader& reader, ModelConfig& config) {
  reader.find("original_max_position_embeddings");  // of longrope
  if (config.rope_scaling.type != RopeScaling::Type::none) {
    reader.fail(
        "rope_scaling is not supported in this family: its scaling, longrope, is not known");
  }
}

void read_granite(const ConfigReader& reader, ModelConfig& config) {
  config.attention_scale = reader.positive_or("attention_multiplier", 1.0);
  config.embedding_multiplier = reader.positive_or("embedding_multiplier", 1.0);
  config.residual_multiplier = reader.positive_or("residual_multiplier", 1.0);
  config.logits_divisor = reader.positive_or("logits_scaling", 1.0);
}

void read_smollm3(const ConfigReader& reader, ModelConfig& config) {
  const nlohmann::json* list = reader.find("no_rope_layers");
  constexpr std::int64_t kAssumed = 4, kMostLayers = 4096;
  const std::int64_t n = reader.size_or("no_rope_layer_interval", kMostLayers, kAssumed);
  if (list == nullptr) {
    for (std::size_t i = 0; i < config.layers.size(); ++i) {
      config.layers[i].rotates = (static_cast<std::int64_t>(i) + 1) % n != 0;
    }
    return;
  }
  if (!list->is_array() || list->size() < config.layers.size()) {
    reader.fail("no_rope_layers must be a list of " + std::to_string(config.layers.size()) +
                " numbers, 1 for a layer that rotates and 0 for one that does not");
  }
  for (std::size_t i = 0; i < config.layers.size(); ++i) {
    const nlohmann::json& rotates = (*list)[i];
    if (rotates != 0 && rotates != 1) reader.fail("no_rope_layers must be numbers 0 and 1");
    config.layers[i].rotates = rotates == 1;
  }
}

void read_gemma2(const ConfigReader& reader, ModelConfig& config) {
  read_query_scale(reader, config);
  constexpr double kAttentionCap = 50.0, kLogitsCap = 30.0;  // of the family's config class
  config.attention_softcap = read_cap(reader, "attn_logit_softcapping", kAttentionCap);
  config.logits_softcap = read_cap(reader, "final_logit_softcapping", kLogitsCap);
}

void read_gemma3(const ConfigReader& reader, ModelConfig& config) {
  read_query_scale(reader, config);
  config.logits_softcap = read_cap(reader, "final_logit_softcapping", 0.0);
  if (reader.find("attn_logit_softcapping") != nullptr) {
    reader.fail(
        "attn_logit_softcapping is not supported in this family; published models have none");
  }
}

void read_mixtral(const ConfigReader& reader, ModelConfig& config) {
  read_experts(reader, "num_local_experts", config);
}

void read_qwen3_moe(const ConfigReader& reader, ModelConfig& config) {
  read_experts(reader, reader.find("num_experts") != nullptr ? "num_experts" : "num_local_experts",
               config);
  config.experts.intermediate_size = reader.size("moe_intermediate_size", kLargestDimension);
  config.experts.normalised = reader.flag_or("norm_topk_prob", false);
  constexpr std::int64_t kMostLayers = 4096;
  const std::int64_t step = reader.size_or("decoder_sparse_step", kMostLayers, 1);
  const nlohmann::json* dense = reader.find("mlp_only_layers");
  if (dense != nullptr && !dense->is_array()) {
    reader.fail("mlp_only_layers must be a list of layers");
  }
  for (std::size_t i = 0; i < config.layers.size(); ++i) {
    const bool listed =
        dense != nullptr && std::find(dense->begin(), dense->end(), i) != dense->end();
    config.layers[i].experts = !listed && (static_cast<std::int64_t>(i) + 1) % step == 0;
  }
}

void read_gpt_oss(const ConfigReader& reader, ModelConfig& config) {
  read_experts(reader, "num_local_experts", config);
  config.experts.biases = true;
  constexpr double kGain = 1.702, kLimit = 7.0;  // of the family's config class
  config.activation_gain = reader.positive_or("swiglu_alpha", kGain);
  config.activation_limit = reader.positive_or("swiglu_limit", kLimit);
}

}  // namespace kvloupe
