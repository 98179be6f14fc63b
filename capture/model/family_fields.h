#pragma once

#include "capture/model/config_reader.h"
#include "capture/model/model_config.h"

namespace kvloupe {

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

/// The same, but a cap on the attention's logits is refused.
void read_gemma3(const ConfigReader& reader, ModelConfig& config);

/// num_local_experts, num_experts_per_tok.
void read_mixtral(const ConfigReader& reader, ModelConfig& config);

/// num_experts, num_experts_per_tok, moe_intermediate_size, norm_topk_prob; the layers without
/// experts: decoder_sparse_step, mlp_only_layers.
void read_qwen3_moe(const ConfigReader& reader, ModelConfig& config);

/// num_local_experts, num_experts_per_tok, swiglu_alpha, swiglu_limit; weights in MXFP4.
void read_gpt_oss(const ConfigReader& reader, ModelConfig& config);

}  // namespace kvloupe
