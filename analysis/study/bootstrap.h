#pragma once

#include <cstdint>
#include <span>

namespace kvloupe {

/// A mean and its interval.
struct MeanInterval {
  double mean = 0.0;
  double low = 0.0, high = 0.0;  // 95 %
};

inline constexpr int kResamples = 10'000;
inline constexpr std::uint64_t kBootstrapSeed = 1;

/// The mean of some values, at least one, with the percentile bootstrap's interval (Efron 1979): of
/// kResamples means of as many values, drawn with replacement, those at ranks ⌊0.025 R⌋ and
/// R − 1 − ⌊0.025 R⌋, from 0. The draws depend only on the seed and the number of values. So the
/// intervals of paired values draw the same pairs, and an interval of differences is that of the
/// paired bootstrap. Throws std::invalid_argument without a value.
MeanInterval bootstrap_mean(std::span<const double> values, std::uint64_t seed = kBootstrapSeed);

}  // namespace kvloupe
