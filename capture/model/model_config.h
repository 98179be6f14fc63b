#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "analysis/metric/rope_scaling.h"

namespace kvloupe {

/// The shape and constants of a decoder, read from a Hugging Face config.json or a GGUF file.
/// Words as in the trace: D hidden size, Hq query heads, Hk key-value heads, d head dimension.
struct ModelConfig {
  std::string architecture;  // e.g. "LlamaForCausalLM"
  std::int64_t num_layers = 0;
  std::int64_t num_heads = 0;          // Hq
  std::int64_t num_kv_heads = 0;       // Hk, divides num_heads
  std::int64_t head_dim = 0;           // d, even
  std::int64_t hidden_size = 0;        // D
  std::int64_t intermediate_size = 0;  // of the gated MLP
  std::int64_t vocab_size = 0;
  std::int64_t max_position_embeddings = 0;  // context the model was made for; 0: not given
  double rms_norm_eps = 1e-6;
  double rope_theta = 10000.0;
  RopeScaling rope_scaling;
  std::int64_t sliding_window = 0;  // W: the query at p sees keys p − W + 1 … p; 0: all before it
  bool qkv_bias = false;            // of the query, key and value projections
  bool output_bias = false;         // of the attention's output projection
  bool mlp_bias = false;
  bool query_key_norm = false;  // RMS norm of each head's query and key, before the rotation
  bool tied_head = false;       // logits use the embedding matrix; there is no lm_head.weight
  std::optional<std::int64_t> bos_token_id;
  std::vector<std::int64_t> eos_token_ids;  // any of them ends a text
  std::string text;                         // the whole config.json
  std::string name;                         // as the file says; empty: that of its folder
  // As in ModelInfo; empty for a folder.
  std::string weights_format, weights_type, weights_file;

  /// Query heads that share one key-value head.
  std::int64_t group_size() const { return num_heads / num_kv_heads; }
};

/// Parses the text of a config.json by the architecture it names (see architecture_catalog.h).
/// `where` is the path shown in errors. Throws FileError naming the field: not JSON, an
/// architecture kvloupe does not know, a field that is missing, of the wrong type or out of range,
/// or an option the architecture's code does not support.
ModelConfig parse_model_config(const std::string& text, const std::string& where);

}  // namespace kvloupe
