#pragma once

#include <string>
#include <string_view>

namespace kvloupe {

/// The text in double quotes, each quote inside written twice: a cell of CSV, a text in a policy spec.
inline std::string doubled_quotes(std::string_view text) {
  std::string result = "\"";
  for (const char c : text) result += c == '"' ? "\"\"" : std::string(1, c);
  return result + '"';
}

}  // namespace kvloupe
