#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "capture/tokenizer/tokenizer.h"

namespace kvloupe {

/// A stretch of a prompt's text that plays one part: bytes from `begin` to the next one's.
struct Segment {
  std::size_t begin = 0;
  std::string name;
};

/// A prompt with its marker lines taken out.
struct Prompt {
  std::string text;
  std::vector<Segment> segments;  // ascending; text before the first marker is "context"
};

/// Cuts a prompt file's text at its marker lines: a line "@@name" (letters, digits, - and _) starts
/// the segment `name` and is no part of the text. One line end at the very end, an editor's habit,
/// is dropped.
Prompt parse_prompt(std::string_view text);

/// Reads and parses a prompt file; a byte order mark at its beginning is dropped. Throws FileError:
/// missing, unreadable, empty, too large.
Prompt read_prompt(const std::filesystem::path& path);

/// Decimal token ids separated by white space. Throws FileError: missing, unreadable, no id,
/// something that is not an id (with its place), an id outside [0, vocab_size).
std::vector<std::int32_t> read_ids(const std::filesystem::path& path, std::int64_t vocab_size);

/// The tokens of a sequence as they gather, with the segment each belongs to.
struct TokenSequence {
  std::vector<std::int32_t> ids;
  std::vector<std::uint8_t> segment;  // index into names
  std::vector<std::string> names{"context", "needle", "question", "answer", "special"};

  /// Throws WorkError beyond 256 names.
  void add(std::int32_t id, const std::string& name);
};

/// BOS where the tokenizer has one and the text does not begin with it, then the prompt's tokens; a
/// token belongs to the segment its first byte lies in, special tokens to "special".
TokenSequence encode_prompt(const Prompt& prompt, const Tokenizer& tokenizer);

}  // namespace kvloupe
