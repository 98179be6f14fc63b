#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace kvloupe {

/// Levenshtein distance: insertions, deletions and substitutions that turn `a` into `b`.
int edit_distance(std::string_view a, std::string_view b);

/// The word of `words` nearest to `wrong`; the first of equals; empty where `words` is.
std::string nearest_word(std::string_view wrong, const std::vector<std::string>& words);

}  // namespace kvloupe
