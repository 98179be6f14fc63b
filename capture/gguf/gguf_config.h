#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "capture/gguf/gguf_model.h"

namespace kvloupe {

/// The model of a GGUF file as a config.json of Hugging Face: shapes, rotation with its scaling,
/// windows, biases (from the tensors that are there), tied output, tokens that end a text. The
/// architecture is that of the family in Hugging Face ("llama" is Llama, Mistral, Mixtral and all
/// models of their structure). Throws FileError that names the key or tensor: an architecture that
/// kvloupe does not compute, a value that is missing, impossible or not supported.
std::string gguf_config(const GgufModel& model);

/// The control tokens with which chat models end a turn, or a text.
inline constexpr std::array<std::string_view, 6> kGgufEnds = {
    "<|eot_id|>", "<|im_end|>", "<|end|>", "<end_of_turn>", "<|end_of_text|>", "<|endoftext|>"};

/// The tokens that end a text: those that the file names. If it names no end of a turn, also the
/// control tokens that chat models use for it, as in llama.cpp.
std::vector<std::int64_t> gguf_end_tokens(const GgufMetadata& metadata);

/// The file's name for a weight's name in Hugging Face's layout: "blk.3.attn_q.weight" for
/// "model.layers.3.self_attn.q_proj.weight". The experts of a layer are one tensor for each part:
/// "blk.3.ffn_up_exps.weight" for "model.layers.3.mlp.experts.up_proj.weight". `architecture`: the
/// file's. Empty for a name that is no weight of a decoder.
std::string gguf_tensor_name(const std::string& architecture, const std::string& name);

/// Whether the file holds the rows of this weight, of a query or key projection, in another order:
/// of each head the two halves' rows in turn, so that neighbours are rotated together.
bool has_interleaved_rows(const std::string& architecture, const std::string& name);

/// Whether a tensor of the file is not a weight of the model and may be left out: the rotation's
/// factors, which the config has.
bool is_gguf_constant(const std::string& tensor);

}  // namespace kvloupe
