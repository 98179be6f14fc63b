#pragma once

#include <cstdint>
#include <string_view>

#include "capture/model/config_reader.h"
#include "capture/model/model_config.h"

namespace kvloupe {

/// Limits of any dimension in a config.
inline constexpr std::int64_t kLargestDimension = std::int64_t{1} << 20;

/// Which projections of the attention have a bias.
enum class AttentionBias {
  none,
  query_key_value,  // always, although no field says so (Qwen2)
  by_field,         // all four, where attention_bias is true
};

/// Which layers have a sliding window, and where the config says so.
struct WindowRule {
  enum class Kind {
    none,         // no layer
    every_layer,  // all layers, with the field sliding_window
    layer_types,  // the layers that layer_types names; without this field all but every n-th layer
    off,          // use_sliding_window must leave all layers without one (Qwen)
    if_used,      // all layers, where use_sliding_window is true (Qwen3-MoE)
  };
  Kind kind = Kind::none;
  std::int64_t absent = 0;  // the window if sliding_window is absent; 0: none. null is always none
  std::int64_t full_every = 0;  // n; 0: no layer has a window
};

/// A model family as data: the defaults that its config leaves out, and its computation. Every
/// family is a decoder with RMS norms, grouped-query attention with rotary positions (pairs j and j
/// + d/2) and gated MLPs. Defaults are those of the family's config class in Hugging Face
/// Transformers.
struct Family {
  std::string_view name;  // in config.json's "architectures"
  // --- defaults of fields that the config lacks
  double rms_norm_eps = 1e-6;
  double rope_theta = 10000.0;
  const char* rope_scaling = "null";  // JSON
  std::int64_t head_dim = 0;          // 0: hidden_size / num_attention_heads
  bool own_kv_heads = false;          // without num_key_value_heads each query head has its own
  bool tied_head = false;
  WindowRule window = {};
  bool attention_bias_absent = false;  // attention_bias, where it is by_field
  // --- the family's computation
  AttentionBias attention_bias = AttentionBias::none;
  bool mlp_bias = false;  // where mlp_bias is true
  QueryKeyNorm query_key_norm = QueryKeyNorm::none;
  NormPlaces norms = NormPlaces::before;
  double norm_offset = 0.0;
  Activation activation = Activation::silu;
  bool scaled_embedding = false;  // by √D (Gemma)
  bool sink_logits = false;
  /// The base of the rotation in layers with a window, where these have a rotation of their own
  /// (Gemma 3): without rope_parameters by type of layer, the field rope_local_base_freq, or else
  /// this. 0: all layers have the same rotation.
  double window_rope_theta = 0.0;
  WeightLayout layout = WeightLayout::plain;
  /// Reads the fields that only this family has; null: none. The layers are filled in by then.
  void (*own_fields)(const ConfigReader& reader, ModelConfig& config) = nullptr;
};

// Fields that only one family has, or two: Family::own_fields. Each throws FileError through the
// reader for a value that is impossible or not supported.

/// Refuses rope_scaling: the family has only longrope, which is not supported.
void read_phi3(const ConfigReader& reader, ModelConfig& config);

/// attention_multiplier, embedding_multiplier, residual_multiplier, logits_scaling.
void read_granite(const ConfigReader& reader, ModelConfig& config);

/// no_rope_layers or no_rope_layer_interval.
void read_smollm3(const ConfigReader& reader, ModelConfig& config);

/// query_pre_attn_scalar, attn_logit_softcapping, final_logit_softcapping.
void read_gemma2(const ConfigReader& reader, ModelConfig& config);

/// The same, but for a cap on the attention's logits, which is refused.
void read_gemma3(const ConfigReader& reader, ModelConfig& config);

/// num_local_experts, num_experts_per_tok.
void read_mixtral(const ConfigReader& reader, ModelConfig& config);

/// num_experts, num_experts_per_tok, moe_intermediate_size, norm_topk_prob; the layers without
/// experts: decoder_sparse_step, mlp_only_layers.
void read_qwen3_moe(const ConfigReader& reader, ModelConfig& config);

/// num_local_experts, num_experts_per_tok, swiglu_alpha, swiglu_limit; weights in MXFP4.
void read_gpt_oss(const ConfigReader& reader, ModelConfig& config);

}  // namespace kvloupe
