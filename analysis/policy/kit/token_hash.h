#pragma once

#include <cstdint>

#include "analysis/numeric/splitmix.h"

namespace kvloupe {

/// A fixed hash of (seed, layer, head, token), uniform in [0, 1): a random number that is the same
/// in every run and order. 24 bits, which a float holds exactly.
inline float token_hash(std::uint64_t seed, int layer, int head, std::int32_t token) {
  std::uint64_t state = splitmix(seed);
  state = splitmix(state + static_cast<std::uint64_t>(layer));
  state = splitmix(state + static_cast<std::uint64_t>(head));
  return static_cast<float>(splitmix(state + static_cast<std::uint64_t>(token)) >> 40U) * 0x1p-24F;
}

}  // namespace kvloupe
