#include "analysis/metric/exponential.h"

#include <algorithm>
#include <bit>
#include <cstdint>

#include "analysis/vector_clones.h"

namespace kvloupe {

namespace {
constexpr std::size_t kLanes = 16;     // partial sums, so that the addition vectorises
constexpr std::size_t kStretch = 512;  // floats summed in float32 before double takes over

/// exp(x) for x ≤ 0: 2^n · e^r with n = round(x / ln 2), |r| ≤ ln 2 / 2, e^r by its series; 0 below
/// −87.7, where n is −127 and the bits of 2^n are none. A second comparison would become a branch,
/// and the loop would not be vectorised where vectors have no masks (AVX2).
inline float exponential(float x) {
  constexpr float kRounder = 0x1.8p23F;  // adding and subtracting it rounds to an integer
  constexpr float kLn2High = 0x1.62e4p-1F, kLn2Low = 0x1.7f7d1cp-20F;
  const float clamped = x < -88.0F ? -88.0F : x;
  const float n = (clamped * 0x1.715476p0F + kRounder) - kRounder;
  const float r = (clamped - n * kLn2High) - n * kLn2Low;
  const float series =
      1.0F +
      r * (1.0F +
           r * (1.0F / 2 +
                r * (1.0F / 6 +
                     r * (1.0F / 24 + r * (1.0F / 120 + r * (1.0F / 720 + r * (1.0F / 5040)))))));
  const auto power = static_cast<std::uint32_t>((static_cast<std::int32_t>(n) + 127) << 23);
  return series * std::bit_cast<float>(power);
}
}  // namespace

KVLOUPE_VECTOR_CLONES
double exponentials(std::span<float> values, float shift) {
  float* const data = values.data();
  const std::size_t size = values.size();
  double total = 0.0;
  for (std::size_t first = 0; first < size; first += kStretch) {
    const std::size_t end = std::min(size, first + kStretch);
    for (std::size_t i = first; i < end; ++i) data[i] = exponential(data[i] - shift);
    float sums[kLanes] = {};
    std::size_t i = first;
    for (; i + kLanes <= end; i += kLanes) {
      for (std::size_t lane = 0; lane < kLanes; ++lane) sums[lane] += data[i + lane];
    }
    for (const float sum : sums) total += sum;
    for (; i < end; ++i) total += data[i];
  }
  return total;
}

}  // namespace kvloupe
