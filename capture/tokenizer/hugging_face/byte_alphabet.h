#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace kvloupe {

/// The character that stands for a byte in a byte-level vocabulary (GPT-2): the byte's own
/// character if printable in Latin-1, else one of U+0100 … U+0143 in the order of the bytes.
std::string_view byte_character(unsigned char byte);

/// The bytes that a piece of such a vocabulary stands for; nothing if one of its characters does
/// not stand for a byte.
std::optional<std::string> bytes_of_piece(std::string_view piece);

}  // namespace kvloupe
