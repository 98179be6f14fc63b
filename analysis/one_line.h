#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace kvloupe {

/// A text from a file or a command line, made safe for a one-line error message: control characters
/// become '?', bytes that are not UTF-8 become \xNN. If there are more than `most` bytes, the first
/// whole characters are shown, then "...".
std::string in_one_line(std::string_view text, std::size_t most = 80);

/// The same in quotes, as names and words are shown.
std::string in_quotes(std::string_view text, std::size_t most = 40);

/// Texts of files in several lines, made safe for a terminal: control characters become '?', except
/// for line ends and tabs.
std::string in_lines(std::string_view text);

}  // namespace kvloupe
