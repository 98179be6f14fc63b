#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

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
  /// The byte at which the answer begins that the prompt itself starts; in a prompt file that of a
  /// last segment "answer".
  std::size_t answer_begin = std::string::npos;
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

/// A file in UTF-8, or in UTF-16 with its byte order mark, without the mark. Throws FileError:
/// missing, unreadable, too large, in another encoding.
std::string read_text(const std::filesystem::path& path);

/// Reads and parses a prompt file. Notes start with the file's name. Throws FileError as
/// read_text(), and for an empty file.
Prompt read_prompt(const std::filesystem::path& path);

}  // namespace kvloupe
