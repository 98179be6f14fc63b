#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "analysis/base/core/matrix.h"
#include "analysis/math/numeric/float_rows.h"

namespace kvloupe {

/// Moves data that is stored per cache entry after an eviction: row j becomes the former row
/// kept[j].
template <typename T>
void keep_rows(std::vector<T>& values, std::span<const std::int32_t> kept) {
  for (std::size_t j = 0; j < kept.size(); ++j) {
    values[j] = values[static_cast<std::size_t>(kept[j])];
  }
  values.resize(kept.size());
}

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

/// ‖row‖₂² of a matrix of states, in double.
inline double squared_length(const MatrixView& rows, Eigen::Index row) {
  return squared_norm(rows.data() + row * rows.outerStride(),
                      static_cast<std::size_t>(rows.cols()));
}

/// max − min over the coordinates of a value.
template <typename Row>
float value_range(const Row& value) {
  return value.maxCoeff() - value.minCoeff();
}

/// The same of each of the first `count` rows: [count].
inline std::vector<float> value_ranges(const MatrixView& values, Eigen::Index count) {
  std::vector<float> ranges;
  for (Eigen::Index row = 0; row < count; ++row) {
    ranges.push_back(value_range(values.row(row)));
  }
  return ranges;
}

}  // namespace kvloupe
