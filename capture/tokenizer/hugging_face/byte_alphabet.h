#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace kvloupe {

/// The character that stands for a byte in a byte-level vocabulary (GPT-2): itself where it is a
/// printable character of Latin-1, else one of U+0100 … U+0143 in the order of the bytes.
std::string_view byte_character(unsigned char byte);

/// The bytes a piece of such a vocabulary stands for; none where one of its characters stands for
/// no byte.
std::optional<std::string> bytes_of_piece(std::string_view piece);

}  // namespace kvloupe
