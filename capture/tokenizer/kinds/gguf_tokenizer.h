#pragma once

#include <filesystem>
#include <memory>

#include "capture/tokenizer/tokenizer.h"

namespace kvloupe {

/// The tokenizer in the values of a GGUF file: "gpt2" (byte-level BPE with merges), with the ids of
/// the tokenizers library for the model's own tokenizer.json; and "llama" (SentencePiece's BPE by
/// scores). Control and user-defined tokens that are written in a text are recognised. BOS is added
/// if the file says so. For an older file that says nothing, it is added with "llama", and with the
/// splits of Llama 3 and Tekken. Throws FileError: missing or contradictory values;
/// UnsupportedTokenizer: another kind, or a way of splitting text that kvloupe does not know.
std::unique_ptr<Tokenizer> open_gguf_tokenizer(const std::filesystem::path& path);

/// Whether the file has a tokenizer, of whatever kind.
bool has_gguf_tokenizer(const std::filesystem::path& path);

}  // namespace kvloupe
