#pragma once

#include <filesystem>
#include <memory>
#include <span>
#include <string_view>

#include "capture/tokenizer/tokenizer.h"

namespace kvloupe {

/// How a text is split into words before byte-pair encoding. A GGUF file names this and does not
/// contain it (key tokenizer.ggml.pre).
struct GgufSplit {
  /// Applied one after the other. Both the matches and the stretches between them are words.
  std::span<const char* const> patterns;
  bool composes = false;         // Unicode's NFC first
  bool whole_words = false;      // a word that is a piece is not cut (ignore_merges)
  bool begins_with_bos = false;  // where the file does not say
};

/// A name in files, and its split.
struct GgufSplitName {
  std::string_view name;
  const GgufSplit* split;
};

/// Every name kvloupe knows.
std::span<const GgufSplitName> gguf_splits();

/// Null for a name that kvloupe does not know.
const GgufSplit* find_gguf_split(std::string_view name);

/// The tokenizer in the values of a GGUF file: "gpt2" (byte-level BPE with merges), with the ids of
/// the tokenizers library for the model's own tokenizer.json; and "llama" (SentencePiece's BPE by
/// scores). Control and user-defined tokens that are written in a text are recognised. BOS is added
/// if the file says so. For an older file that says nothing, it is added with "llama", and with the
/// splits of Llama 3 and Tekken. Throws FileError: missing or contradictory values;
/// UnsupportedTokenizer: another kind, or a way of splitting text that kvloupe does not know.
std::unique_ptr<Tokenizer> open_gguf_tokenizer(const std::filesystem::path& path);

/// The tokenizer, which also reads its special tokens where they are written in a text.
std::unique_ptr<Tokenizer> reading_special_tokens(std::unique_ptr<Tokenizer> plain);

/// Whether the file has a tokenizer, of whatever kind.
bool has_gguf_tokenizer(const std::filesystem::path& path);

}  // namespace kvloupe
