#pragma once

#include <cstdint>
#include <span>
#include <vector>

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

}  // namespace kvloupe
