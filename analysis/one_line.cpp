#include "analysis/one_line.h"

#include <algorithm>

#include "analysis/utf8.h"

namespace kvloupe {

namespace {
/// `text` with '?' for each control character that is not in `allowed`: terminals also obey U+0080
/// to U+009F.
std::string without_controls(std::string_view text, std::string_view allowed) {
  std::string result;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto c = static_cast<unsigned char>(text[i]);
    const bool two = c == 0xC2 && i + 1 < text.size() && continues_character(text[i + 1]) &&
                     static_cast<unsigned char>(text[i + 1]) < 0xA0;
    const bool control = (c < 0x20 || c == 0x7F) && allowed.find(text[i]) == allowed.npos;
    result += two || control ? '?' : text[i];
    if (two) ++i;
  }
  return result;
}
}  // namespace

std::string in_one_line(std::string_view text, std::size_t most) {
  std::size_t end = std::min(text.size(), most);
  const auto inside_character = [&](std::size_t i) {
    return i < text.size() && continues_character(text[i]);
  };
  for (int back = 0; back < 3 && end > 0 && inside_character(end); ++back) --end;
  return escape_invalid_utf8(without_controls(text.substr(0, end), "")) +
         (end < text.size() ? "..." : "");
}

std::string in_lines(std::string_view text) {
  return escape_invalid_utf8(without_controls(text, "\n\t"));
}

std::string in_quotes(std::string_view text, std::size_t most) {
  return '"' + in_one_line(text, most) + '"';
}

}  // namespace kvloupe
