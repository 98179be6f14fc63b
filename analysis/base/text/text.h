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

/// The text in double quotes, each quote inside written twice: a cell of CSV, a text in a policy
/// spec.
inline std::string doubled_quotes(std::string_view text) {
  std::string result = "\"";
  for (const char c : text) result += c == '"' ? "\"\"" : std::string(1, c);
  return result + '"';
}

/// A text as the cell of a Markdown table, where a bare pipe would end the cell.
std::string table_cell(std::string text);

/// A text as LaTeX shows it: its special characters escaped, symbols of kvloupe's texts as maths.
/// Other characters outside of ASCII stay as they are, in UTF-8.
std::string latex_text(std::string_view text);

/// How long still, as a person says it: "about 40 s", "about 3 min", "about 1 h 20 min". Rounded
/// up; a time below a second, unknown or negative is "about 1 s".
std::string duration_text(double seconds);

}  // namespace kvloupe
