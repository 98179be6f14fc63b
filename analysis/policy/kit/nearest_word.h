#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace kvloupe {

/// Levenshtein distance: insertions, deletions and substitutions that turn `a` into `b`.
int edit_distance(std::string_view a, std::string_view b);

/// The word of `words` that is nearest to `wrong`; among equals the first; empty if `words` is
/// empty.
std::string nearest_word(std::string_view wrong, const std::vector<std::string>& words);

}  // namespace kvloupe
