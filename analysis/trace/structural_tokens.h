#pragma once

#include <string_view>
#include <vector>

#include "analysis/trace/model_info.h"

namespace kvloupe {

/// Whether each token [T] is structural: the first of all, the first of each segment, special
/// tokens (those of the segment "special", and pieces such as <s> or <|im_end|>), line ends, and
/// tokens of delimiters alone ( . , ; : ! ? and brackets, quotation marks, their full-width forms).
/// After the boundary tokens of "Protection Is (Nearly) All You Need" (Garcia, 2026), whose list is
/// not fully known. Empty for a table without texts.
std::vector<char> structural_tokens(const TokenTable& tokens);
/// Whether a token is structural by its own text, whatever its segment.
bool is_structural(std::string_view text);

}  // namespace kvloupe
