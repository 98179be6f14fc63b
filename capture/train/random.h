#pragma once

#include <cstdint>

namespace kvloupe::train {

/// A small seeded generator (splitmix64, Steele, Lea, Flood 2014) whose numbers are the same with
/// every compiler and library, unlike the distributions of <random>.
class Random {
 public:
  /// One independent stream for each pair.
  explicit Random(std::uint64_t seed, std::uint64_t stream = 0)
      : state_(mix(mix(seed + kStep) ^ mix(stream + 2 * kStep))) {}

  std::uint64_t next() { return mix(state_ += kStep); }
  /// 0 to count - 1; count at least 1.
  int below(int count) {
    return static_cast<int>((next() >> 32) * static_cast<std::uint64_t>(count) >> 32);
  }
  /// first to last, both included.
  int between(int first, int last) { return first + below(last - first + 1); }
  /// In [0, 1).
  double uniform() { return static_cast<double>(next() >> 11) * 0x1.0p-53; }
  bool chance(double probability) { return uniform() < probability; }

 private:
  static constexpr std::uint64_t kStep = 0x9E3779B97F4A7C15ULL;
  static std::uint64_t mix(std::uint64_t value) {
    value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9ULL;
    value = (value ^ (value >> 27)) * 0x94D049BB133111EBULL;
    return value ^ (value >> 31);
  }

  std::uint64_t state_;
};

}  // namespace kvloupe::train
