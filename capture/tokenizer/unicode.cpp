#include "capture/tokenizer/unicode.h"

#include <utf8proc.h>

namespace kvloupe {

char32_t last_character(std::string_view text) {
  std::size_t begin = text.size() - 1;
  while (begin > 0 && continues_character(text[begin])) --begin;
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

std::string in_small_letters(std::string_view text) {
  constexpr char32_t kDottedI = 0x130, kDot = 0x307, kFinalSigma = 0x3C2, kSigma = 0x3C3;
  std::string result;
  for (std::size_t length = 0; !text.empty(); text.remove_prefix(length)) {
    length = character_length(text);
    if (length == 0) {
      result += text.substr(0, length = 1);
      continue;
    }
    const char32_t character = first_character(text);
    const auto small =
        static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(character)));
    append_character(result, character == kDottedI ? U'i' : small == kFinalSigma ? kSigma : small);
    if (character == kDottedI) append_character(result, kDot);
  }
  return result;
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

}  // namespace kvloupe
