#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

namespace kvloupe {

/// How many entries have a token before `first`: they are the first rows of a cache.
inline std::size_t rows_before(std::span<const std::int32_t> tokens, int first) {
  return static_cast<std::size_t>(std::lower_bound(tokens.begin(), tokens.end(), first) -
                                  tokens.begin());
}

/// Gives rows [0, count) and [end, n) the largest score of those between: entries that a method
/// keeps without a score. 0 where there is none between.
template <typename Number>
void fill_protected(std::vector<Number>& scores, std::size_t count, std::size_t end) {
  const Number largest =
      end > count ? *std::max_element(scores.begin() + static_cast<std::ptrdiff_t>(count),
                                      scores.begin() + static_cast<std::ptrdiff_t>(end))
                  : Number(0);
  for (std::size_t row = 0; row < scores.size(); ++row) {
    if (row < count || row >= end) scores[row] = largest;
  }
}

}  // namespace kvloupe
