#pragma once

#include <span>
#include <string_view>

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

}  // namespace kvloupe
