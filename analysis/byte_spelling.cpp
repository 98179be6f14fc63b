#include "analysis/byte_spelling.h"

#include <algorithm>
#include <charconv>
#include <cstddef>

#include "analysis/utf8.h"

namespace kvloupe {

namespace {

void append_number(std::string& text, unsigned char byte) {
  static constexpr char kDigits[] = "0123456789ABCDEF";
  text += {'\\', 'x', kDigits[byte >> 4U], kDigits[byte & 15U]};
}

void append_spelling(std::string& text, unsigned char byte) {
  switch (byte) {
    case '\\':
      text += "\\\\";
      return;
    case '\n':
      text += "\\n";
      return;
    case '\t':
      text += "\\t";
      return;
    case '\r':
      text += "\\r";
      return;
    default:
      break;
  }
  if (byte >= 0x20 && byte < 0x7F) {
    text += static_cast<char>(byte);
  } else {
    append_number(text, byte);
  }
}

/// The byte that two hexadecimal digits stand for; −1 where they are none.
int byte_of(std::string_view digits) {
  int value = -1;
  if (digits.size() != 2) return -1;
  const auto [end, problem] = std::from_chars(digits.begin(), digits.end(), value, 16);
  return problem == std::errc() && end == digits.end() ? value : -1;
}

}  // namespace

std::string spell_bytes(std::string_view bytes) {
  std::string text;
  text.reserve(bytes.size());
  while (!bytes.empty()) {
    const std::size_t length = character_length(bytes);
    if (length > 1) {
      text += bytes.substr(0, length);
    } else {
      append_spelling(text, static_cast<unsigned char>(bytes.front()));
    }
    bytes.remove_prefix(std::max<std::size_t>(length, 1));
  }
  return text;
}

std::string readable_bytes(std::string_view bytes) {
  std::string text;
  text.reserve(bytes.size());
  while (!bytes.empty()) {
    const std::size_t length = bytes.front() == '\0' ? 0 : character_length(bytes);
    if (length > 0) {
      text += bytes.substr(0, length);
    } else {
      append_number(text, static_cast<unsigned char>(bytes.front()));
    }
    bytes.remove_prefix(std::max<std::size_t>(length, 1));
  }
  return text;
}

std::string spelled_bytes(std::string_view text) {
  std::string bytes;
  bytes.reserve(text.size());
  while (!text.empty()) {
    const char next = text.front() == '\\' && text.size() > 1 ? text[1] : '\0';
    const int byte = next == 'x' ? byte_of(text.substr(2, 2)) : -1;
    std::size_t length = next == '\0' ? 1 : 2;
    if (byte >= 0) {
      bytes += static_cast<char>(byte);
      length = 4;
    } else if (next == '\\' || next == '\0') {
      bytes += text.front();
    } else if (next == 'n') {
      bytes += '\n';
    } else if (next == 't') {
      bytes += '\t';
    } else if (next == 'r') {
      bytes += '\r';
    } else {
      bytes += text.front();
      length = 1;
    }
    text.remove_prefix(length);
  }
  return bytes;
}

}  // namespace kvloupe
