#include "analysis/base/text/utf8.h"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <utility>

namespace kvloupe {

std::size_t character_length(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const auto follows = [&](std::size_t i) {
    return i < text.size() && continues_character(text[i]);
  };
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

std::string escape_invalid_utf8(std::string_view text) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string result;
  result.reserve(text.size());
  while (!text.empty()) {
    std::size_t length = text[0] == '\0' ? 0 : character_length(text);
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

namespace {

/// Bytes with a letter of their own behind the backslash.
constexpr std::pair<char, char> kLetters[] = {{'\\', '\\'}, {'\n', 'n'}, {'\t', 't'}, {'\r', 'r'}};

std::string number_spelling(char one) {
  static constexpr char kDigits[] = "0123456789ABCDEF";
  const auto byte = static_cast<unsigned char>(one);
  return {'\\', 'x', kDigits[byte >> 4U], kDigits[byte & 15U]};
}

std::string spelling(char one) {
  for (const auto& [byte, letter] : kLetters) {
    if (one == byte) return {'\\', letter};
  }
  return one >= 0x20 && one < 0x7F ? std::string(1, one) : number_spelling(one);
}

/// The byte that two hexadecimal digits stand for; −1 where they are none.
int byte_of(std::string_view digits) {
  int value = -1;
  if (digits.size() != 2) return -1;
  const auto [end, problem] = std::from_chars(digits.begin(), digits.end(), value, 16);
  return problem == std::errc() && end == digits.end() ? value : -1;
}

/// Characters that `stays`(length, first byte) accepts, and other bytes as `spell` writes them.
template <typename Stays>
std::string characters(std::string_view bytes, const Stays& stays, std::string (*spell)(char)) {
  std::string text;
  text.reserve(bytes.size());
  while (!bytes.empty()) {
    const std::size_t length = character_length(bytes);
    if (stays(length, bytes.front())) {
      text += bytes.substr(0, length);
    } else {
      text += spell(bytes.front());
    }
    bytes.remove_prefix(std::max<std::size_t>(length, 1));
  }
  return text;
}

}  // namespace

std::string spell_bytes(std::string_view bytes) {
  return characters(
      bytes, [](std::size_t length, char) { return length > 1; }, spelling);
}

std::string readable_bytes(std::string_view bytes) {
  return characters(
      bytes, [](std::size_t length, char first) { return length > 0 && first != '\0'; },
      number_spelling);
}

std::string spelled_bytes(std::string_view text) {
  std::string bytes;
  bytes.reserve(text.size());
  while (!text.empty()) {
    const char next = text.front() == '\\' && text.size() > 1 ? text[1] : '\0';
    const int byte = next == 'x' ? byte_of(text.substr(2, 2)) : -1;
    std::size_t length = byte >= 0 ? 4 : 1;
    char one = byte >= 0 ? static_cast<char>(byte) : text.front();
    for (const auto& [own, letter] : kLetters) {
      if (next != letter) continue;
      one = own;
      length = 2;
    }
    bytes += one;
    text.remove_prefix(length);
  }
  return bytes;
}

}  // namespace kvloupe
