#pragma once
// The functions on UTF-8 and Unicode's characters that tokenizers need.

#include <string>
#include <string_view>

#include "analysis/base/text/utf8.h"

namespace kvloupe {

/// The code point of the UTF-8 character that `text`, which is UTF-8 and not empty, ends with.
char32_t last_character(std::string_view text);

/// Unicode's White_Space.
bool is_white_space(char32_t character);

/// Unicode's general category N: Nd, Nl, No.
bool is_numeric(char32_t character);

/// A part of a word in regular expressions (UTS #18, \w): Alphabetic, M, Nd, Pc, Join_Control.
bool is_word_character(char32_t character);

/// The byte that a piece "<0xNN>" stands for; −1 for every other piece.
int byte_of_piece(std::string_view piece);

}  // namespace kvloupe
