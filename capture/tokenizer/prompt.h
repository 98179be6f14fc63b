#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "capture/tokenizer/tokenizer.h"

namespace kvloupe {

/// A segment of a prompt's text: bytes from `begin` to the next segment's.
struct Segment {
  std::size_t begin = 0;
  std::string name;
};

/// A prompt without its marker lines.
struct Prompt {
  std::string text;
  std::vector<Segment> segments;   // ascending; text before the first marker is "context"
  std::vector<std::string> notes;  // one line each: what may have been meant otherwise
};

/// Divides a prompt file's text at its marker lines: a line "@@name" (small letters, digits, - and
/// _, a letter first) starts the segment `name` and is not part of the text. A note reports a name
/// without a meaning in kvloupe, and a line that would be a marker without its capital letters;
/// such a line is text. A backslash before "@@" keeps a marker line as text, and is not part of the
/// text. One line end at the very end, which editors add, is dropped.
Prompt parse_prompt(std::string_view text);

/// The same of a text that is no file's: a line end at its end is a part of it, as in chat
/// templates.
Prompt parse_text(std::string_view text);

/// Reads and parses a prompt file in UTF-8, or in UTF-16 with its byte order mark; the mark is
/// dropped. Notes start with the file's path. Throws FileError: missing, unreadable, empty, too
/// large, in another encoding.
Prompt read_prompt(const std::filesystem::path& path);

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
/// token belongs to the segment of its first byte, special tokens to "special".
TokenSequence encode_prompt(const Prompt& prompt, const Tokenizer& tokenizer);

}  // namespace kvloupe
