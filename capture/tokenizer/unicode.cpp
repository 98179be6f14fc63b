#include "capture/tokenizer/unicode.h"

#include <utf8proc.h>

#include <algorithm>

#include "capture/tokenizer/tokenizer.h"

namespace kvloupe {

std::size_t character_length(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const auto follows = [&](std::size_t i) { return i < text.size() && (byte(i) & 0xC0U) == 0x80U; };
  const unsigned lead = byte(0);
  if (lead < 0x80) return 1;
  if (lead >= 0xC2 && lead < 0xE0 && follows(1)) return 2;
  if (lead >= 0xE0 && lead < 0xF0 && follows(1) && follows(2)) {
    const unsigned code = (lead & 0x0FU) << 12U | (byte(1) & 0x3FU) << 6U | (byte(2) & 0x3FU);
    return code >= 0x800 && (code < 0xD800 || code > 0xDFFF) ? 3 : 0;
  }
  if (lead >= 0xF0 && lead < 0xF5 && follows(1) && follows(2) && follows(3)) {
    const unsigned code = (lead & 0x07U) << 18U | (byte(1) & 0x3FU) << 12U |
                          (byte(2) & 0x3FU) << 6U | (byte(3) & 0x3FU);
    return code >= 0x10000 && code <= 0x10FFFF ? 4 : 0;
  }
  return 0;
}

char32_t first_character(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const auto tail = [&](std::size_t i) { return byte(i) & 0x3FU; };
  switch (character_length(text)) {
    case 2:
      return (byte(0) & 0x1FU) << 6U | tail(1);
    case 3:
      return (byte(0) & 0x0FU) << 12U | tail(1) << 6U | tail(2);
    case 4:
      return (byte(0) & 0x07U) << 18U | tail(1) << 12U | tail(2) << 6U | tail(3);
    default:
      return byte(0);
  }
}

char32_t last_character(std::string_view text) {
  std::size_t begin = text.size() - 1;
  while (begin > 0 && (static_cast<unsigned char>(text[begin]) & 0xC0U) == 0x80U) --begin;
  return first_character(text.substr(begin));
}

void append_character(std::string& text, char32_t character) {
  const auto add = [&](unsigned bits) { text += static_cast<char>(bits); };
  if (character < 0x80) {
    add(character);
  } else if (character < 0x800) {
    add(0xC0U | character >> 6U);
    add(0x80U | (character & 0x3FU));
  } else if (character < 0x10000) {
    add(0xE0U | character >> 12U);
    add(0x80U | (character >> 6U & 0x3FU));
    add(0x80U | (character & 0x3FU));
  } else {
    add(0xF0U | character >> 18U);
    add(0x80U | (character >> 12U & 0x3FU));
    add(0x80U | (character >> 6U & 0x3FU));
    add(0x80U | (character & 0x3FU));
  }
}

bool is_white_space(char32_t c) {
  return (c >= 0x09 && c <= 0x0D) || c == 0x20 || c == 0x85 || c == 0xA0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F ||
         c == 0x3000;
}

bool is_numeric(char32_t character) {
  const utf8proc_category_t category = utf8proc_category(static_cast<utf8proc_int32_t>(character));
  return category >= UTF8PROC_CATEGORY_ND && category <= UTF8PROC_CATEGORY_NO;
}

bool is_word_character(char32_t c) {
  if (c == 0x200C || c == 0x200D) return true;
  // Alphabetic is L, Nl and Other_Alphabetic: marks, and these circled and squared letters.
  if ((c >= 0x24B6 && c <= 0x24E9) || (c >= 0x1F130 && c <= 0x1F149) ||
      (c >= 0x1F150 && c <= 0x1F169) || (c >= 0x1F170 && c <= 0x1F189)) {
    return true;
  }
  const utf8proc_category_t category = utf8proc_category(static_cast<utf8proc_int32_t>(c));
  return (category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_NL) ||
         category == UTF8PROC_CATEGORY_PC;
}

std::string shown_bytes(std::string_view bytes) {
  std::string text;
  while (!bytes.empty()) {
    const std::size_t length = character_length(bytes);
    if (length > 1) {
      text += bytes.substr(0, length);
    } else {
      text += byte_text(static_cast<unsigned char>(bytes.front()));
    }
    bytes.remove_prefix(std::max<std::size_t>(length, 1));
  }
  return text;
}

}  // namespace kvloupe
