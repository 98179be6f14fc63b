#include "analysis/trace/utf8.h"

namespace kvloupe {

namespace {
/// Length of the valid UTF-8 sequence `text` starts with; 0 where there is none (or it is NUL).
std::size_t sequence_length(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned first = byte(0);
  if (first == 0) return 0;
  if (first < 0x80) return 1;
  std::size_t length = 0;
  unsigned code = 0, least = 0;
  if (first >= 0xc0 && first < 0xe0) {
    length = 2, code = first & 0x1fU, least = 0x80;
  } else if (first >= 0xe0 && first < 0xf0) {
    length = 3, code = first & 0x0fU, least = 0x800;
  } else if (first >= 0xf0 && first < 0xf8) {
    length = 4, code = first & 0x07U, least = 0x10000;
  } else {
    return 0;
  }
  if (text.size() < length) return 0;
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0U) != 0x80U) return 0;
    code = (code << 6) | (byte(i) & 0x3fU);
  }
  const bool surrogate = code >= 0xd800 && code < 0xe000;
  return code < least || code > 0x10ffff || surrogate ? 0 : length;
}
}  // namespace

std::string escape_invalid_utf8(std::string_view text) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string result;
  result.reserve(text.size());
  while (!text.empty()) {
    std::size_t length = sequence_length(text);
    if (length > 0) {
      result += text.substr(0, length);
    } else {
      const auto byte = static_cast<unsigned char>(text[0]);
      result += {'\\', 'x', kDigits[byte >> 4], kDigits[byte & 15]};
      length = 1;
    }
    text.remove_prefix(length);
  }
  return result;
}

}  // namespace kvloupe
