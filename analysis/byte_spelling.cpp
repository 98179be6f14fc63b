#include "analysis/byte_spelling.h"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <utility>

#include "analysis/utf8.h"

namespace kvloupe {

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
