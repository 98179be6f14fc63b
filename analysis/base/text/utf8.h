#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace kvloupe {

/// Whether a byte of UTF-8 belongs to the character before it.
constexpr bool continues_character(char byte) {
  return (static_cast<unsigned char>(byte) & 0xC0U) == 0x80U;
}

/// Bytes of the UTF-8 character that `text` (not empty) starts with; 0 if it is not valid.
std::size_t character_length(std::string_view text);

/// The code point of the UTF-8 character that `text` starts with; there must be one.
char32_t first_character(std::string_view text);

/// Appends a code point as UTF-8.
void append_character(std::string& text, char32_t character);

/// `text` as valid UTF-8: NUL and bytes that are not UTF-8 become the four characters \xNN.
std::string escape_invalid_utf8(std::string_view text);

/// Bytes as valid UTF-8 on one line, from which spelled_bytes() gives them back: a backslash is
/// written as \\, a line feed, a tab and a carriage return as \n, \t and \r, other control
/// characters and bytes that are not UTF-8 as \xNN (capital hexadecimal digits).
std::string spell_bytes(std::string_view bytes);

/// Bytes as text to work with: valid UTF-8 with its own backslashes, line feeds and tabs, in which
/// only NUL and bytes that are not UTF-8 are written as \xNN.
std::string readable_bytes(std::string_view bytes);

/// The bytes that spell_bytes() wrote. A backslash before anything else stands for itself.
std::string spelled_bytes(std::string_view text);

}  // namespace kvloupe
