#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "analysis/base/system/prompt_file.h"
#include "capture/tokenizer/tokenizer.h"

namespace kvloupe {

/// Decimal token ids separated by white space. Throws FileError: missing, unreadable, no id,
/// something that is not an id (with its place), an id outside [0, vocab_size).
std::vector<std::int32_t> read_ids(const std::filesystem::path& path, std::int64_t vocab_size);

/// The tokens of a sequence while it is built, with the segment of each.
struct TokenSequence {
  std::vector<std::int32_t> ids;
  std::vector<std::uint8_t> segment;  // index into names
  std::vector<std::string> names{"context", "needle", "question", "answer", "special"};

  /// Throws WorkError beyond 256 names.
  void add(std::int32_t id, const std::string& name);
};

/// BOS if the tokenizer has one and the text does not begin with it, then the prompt's tokens. A
/// token belongs to the segment of its first byte, special tokens to "special". With the
/// tokenizer's chat template what the template writes, which has the BOS where the model has one.
TokenSequence encode_prompt(const Prompt& prompt, const Tokenizer& tokenizer);

}  // namespace kvloupe
