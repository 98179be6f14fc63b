#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "analysis/math/rope_scaling.h"

namespace kvloupe {

/// The places of the RMS norms of a layer. A layer has two halves, the attention and the MLP.
enum class NormPlaces {
  before,  // at the input of each half (Llama)
  after,   // at the output of each half, before it is added to the residual stream (OLMo 2)
  around,  // both (Gemma 2)
};

/// RMS norm of queries and keys before the rotation.
enum class QueryKeyNorm {
  none,
  heads,  // of each head by itself (Qwen3)
  whole,  // of all heads together (OLMo 2)
};

/// The function of the gate g and the values u in the gated MLP.
enum class Activation {
  silu,          // u · g · σ(g)
  gelu_tanh,     // u · gelu(g), in the approximation with tanh (Gemma)
  clamped_silu,  // (u + 1) · g · σ(αg), g and u clamped (gpt-oss)
};

/// How a model's files join weights that kvloupe separates (see stored_weights.h).
enum class WeightLayout {
  plain,           // each by itself, the experts' as well (Llama, Qwen3-MoE)
  fused,           // query, key and value in one matrix, gate and up in another (Phi-3)
  mixtral,         // each by itself, under Mixtral's names
  gpt_oss,         // the experts of a layer in one tensor, gate and up in turns, transposed
  gpt_oss_packed,  // the same in MXFP4, not transposed
  stacked,         // the experts of a layer in one tensor for each part (GGUF)
};

/// A mixture of experts in place of a layer's MLP: the router gives each token its most probable
/// experts, and the outputs of these are added with their probabilities.
struct Experts {
  std::int64_t count = 0;              // 0: the model has none
  std::int64_t per_token = 0;          // experts that a token takes
  std::int64_t intermediate_size = 0;  // of each
  bool normalised = true;  // the probabilities of the experts taken are scaled to a sum of 1
  bool biases = false;     // of the router and of the experts' projections
};

/// The settings that may differ by layer.
struct LayerConfig {
  std::int64_t sliding_window = 0;  // W: the query at p sees keys p − W + 1 … p; 0: all before it
  bool rotates = true;              // false: queries and keys keep no position (SmolLM3)
  double rope_theta = 10000.0;
  RopeScaling rope_scaling;
  bool experts = false;  // a mixture of experts in place of the MLP

  bool same_rotation(const LayerConfig& other) const {
    return rotates == other.rotates && rope_theta == other.rope_theta &&
           rope_scaling == other.rope_scaling;
  }
};

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
  // Rotation and window of the layers without their own, as in a trace's /model.
  double rope_theta = 10000.0;
  RopeScaling rope_scaling;
  std::int64_t sliding_window = 0;  // W: the query at p sees keys p − W + 1 … p; 0: all before it
  std::vector<LayerConfig> layers;  // [L]
  double attention_scale = 0.0;     // the factor of q·k in the logits, usually 1/√d
  double attention_softcap = 0.0;   // c: logits are c · tanh(scale · q·k / c); 0: none
  bool sink_logits = false;         // each query head has one more logit, without a value (gpt-oss)
  bool qkv_bias = false;            // of the query, key and value projections
  bool output_bias = false;         // of the attention's output projection
  bool mlp_bias = false;
  QueryKeyNorm query_key_norm = QueryKeyNorm::none;
  NormPlaces norms = NormPlaces::before;
  double norm_offset = 0.0;  // added to the weights of norms: Gemma's files store them less 1
  Activation activation = Activation::silu;
  double activation_gain = 1.0, activation_limit = 0.0;  // only clamped_silu: α, and the clamp
  Experts experts;
  double embedding_multiplier = 1.0;  // of the embedding's rows as they enter the first layer
  double residual_multiplier = 1.0;   // of the output of each half of a layer
  double logits_divisor = 1.0;
  double logits_softcap = 0.0;  // c: logits are c · tanh(logits / c); 0: none
  bool tied_head = false;       // logits use the embedding matrix; there is no lm_head.weight
  WeightLayout layout = WeightLayout::plain;
  std::optional<std::int64_t> bos_token_id;
  std::vector<std::int64_t> eos_token_ids;  // any of them ends a text
  std::string text;                         // the whole config.json
  std::string name;                         // as the file says; empty: that of its folder
  // As in ModelInfo; empty for a folder.
  std::string weights_format, weights_type, weights_file;

  /// Query heads that share one key-value head.
  std::int64_t group_size() const { return num_heads / num_kv_heads; }
  const LayerConfig& layer(std::int64_t index) const {
    return layers.at(static_cast<std::size_t>(index));
  }
  /// The smallest window of any layer; 0 if no layer has one.
  std::int64_t narrowest_window() const;
  /// Whether the attention's output enters the residual stream as W_O gives it, and the logits are
  /// the head's product with the last norm's output: only then a trace gives the effect of a head's
  /// output on the logits.
  bool has_plain_residual() const {
    return norms == NormPlaces::before && residual_multiplier == 1.0 && logits_divisor == 1.0 &&
           logits_softcap == 0.0;
  }
};

/// Parses the text of a config.json by the architecture it names (see architecture_catalog.h).
/// `where` is the path shown in errors. Throws FileError naming the field: not JSON, an
/// architecture kvloupe does not know, a field that is missing, of the wrong type or out of range,
/// or an option the architecture's code does not support.
ModelConfig parse_model_config(const std::string& text, const std::string& where);

}  // namespace kvloupe
