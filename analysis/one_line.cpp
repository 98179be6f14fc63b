#include "analysis/one_line.h"

#include <algorithm>

#include "analysis/utf8.h"

namespace kvloupe {

std::string in_one_line(std::string_view text, std::size_t most) {
  std::size_t end = std::min(text.size(), most);
  const auto inside_character = [&](std::size_t i) {
    return i < text.size() && continues_character(text[i]);
  };
  for (int back = 0; back < 3 && end > 0 && inside_character(end); ++back) --end;
  std::string controls(text.substr(0, end));
  std::replace_if(
      controls.begin(), controls.end(), [](unsigned char c) { return c < 0x20 || c == 0x7F; }, '?');
  return escape_invalid_utf8(controls) + (end < text.size() ? "..." : "");
}

std::string in_quotes(std::string_view text, std::size_t most) {
  return '"' + in_one_line(text, most) + '"';
}

}  // namespace kvloupe
