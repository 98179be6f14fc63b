#pragma once

#include "capture/model/config_reader.h"
#include "capture/model/model_config.h"

namespace kvloupe {

// Readers of each family's config.json; architecture_catalog.cpp lists them. All families are
// decoders with RMS norm, grouped-query attention with rotary positions (rotate-half pairs) and a
// gated SiLU MLP. The readers refuse options that are not computed and name them (see
// read_decoder()). Defaults are those of each family's own config class in Hugging Face
// Transformers.

/// LlamaForCausalLM (Llama 2, 3, 3.1, 3.2 …): attention_bias on all four projections, mlp_bias.
ModelConfig parse_llama(const ConfigReader& reader);

/// MistralForCausalLM: sliding_window in every layer; null: none.
ModelConfig parse_mistral(const ConfigReader& reader);

/// Qwen2ForCausalLM (Qwen 1.5, 2, 2.5): always a bias on the query, key and value projections,
/// although no field says so.
ModelConfig parse_qwen2(const ConfigReader& reader);

/// Qwen3ForCausalLM: RMS norm of each head's query and key before the rotation.
ModelConfig parse_qwen3(const ConfigReader& reader);

}  // namespace kvloupe
