#pragma once

#include <cstdint>

#include "analysis/numeric/splitmix.h"

namespace kvloupe::train {

/// A small seeded generator: splitmix64.
class Random {
 public:
  /// One independent stream for each pair.
  explicit Random(std::uint64_t seed, std::uint64_t stream = 0)
      : state_(splitmix_output(splitmix(seed) ^ splitmix(stream + kSplitmixStep))) {}

  std::uint64_t next() { return splitmix_output(state_ += kSplitmixStep); }
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
  std::uint64_t state_;
};

}  // namespace kvloupe::train
