#pragma once

#include <cstdint>

namespace kvloupe {

// splitmix64 (Steele, Lea, Flood 2014): a counter and a function that scrambles it. Its numbers are
// the same with every compiler and library, unlike the distributions of <random>.

inline constexpr std::uint64_t kSplitmixStep = 0x9E3779B97F4A7C15ULL;

/// The number of a state of the counter.
constexpr std::uint64_t splitmix_output(std::uint64_t state) {
  state = (state ^ (state >> 30U)) * 0xBF58476D1CE4E5B9ULL;
  state = (state ^ (state >> 27U)) * 0x94D049BB133111EBULL;
  return state ^ (state >> 31U);
}

/// One round: the number after `state`. As a hash, it scrambles `state`.
constexpr std::uint64_t splitmix(std::uint64_t state) {
  return splitmix_output(state + kSplitmixStep);
}

}  // namespace kvloupe
