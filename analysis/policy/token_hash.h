#pragma once

#include <cstdint>

namespace kvloupe {

/// A fixed hash of (seed, layer, head, token), uniform in [0, 1): a random number that is the same
/// in every run and order. 24 bits, which a float holds exactly.
inline float token_hash(std::uint64_t seed, int layer, int head, std::int32_t token) {
  const auto scramble = [](std::uint64_t x) {  // one round of splitmix64's output function
    x += 0x9E3779B97F4A7C15ULL;
    x = (x ^ (x >> 30U)) * 0xBF58476D1CE4E5B9ULL;
    x = (x ^ (x >> 27U)) * 0x94D049BB133111EBULL;
    return x ^ (x >> 31U);
  };
  std::uint64_t state = scramble(seed);
  state = scramble(state + static_cast<std::uint64_t>(layer));
  state = scramble(state + static_cast<std::uint64_t>(head));
  return static_cast<float>(scramble(state + static_cast<std::uint64_t>(token)) >> 40U) * 0x1p-24F;
}

}  // namespace kvloupe
