#pragma once

#include <string>
#include <string_view>

namespace kvloupe {

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
