#include "analysis/math/numeric/exponentials.h"

#include <algorithm>
#include <bit>
#include <cstdint>

#include "analysis/base/system/vector_clones.h"

namespace kvloupe {

namespace {
constexpr std::size_t kChunk = 512;

/// exp(x) for x <= 0: 2^k · e^r with |r| <= log(2)/2 and a polynomial for e^r; 0 below -87.7, where
/// k is -127 and the bits of 2^k are none. A second comparison, to say so, would become a branch,
/// and the loop would not be vectorised where vectors have no masks (AVX2).
inline __attribute__((always_inline)) float exponential(float x) {
  constexpr float kLog2E = 1.44269504F;
  constexpr float kLn2High = 0.693359375F;
  constexpr float kLn2Low = -2.12194440e-4F;
  constexpr float kRound = 12582912.0F;  // 1.5 · 2^23: adding it rounds to an integer
  const float bounded = x < -88.0F ? -88.0F : x;
  const float shifted = bounded * kLog2E + kRound;
  const float k = shifted - kRound;
  const float r = (bounded - k * kLn2High) - k * kLn2Low;
  float p = 1.9875691500e-4F;
  p = p * r + 1.3981999507e-3F;
  p = p * r + 8.3334519073e-3F;
  p = p * r + 4.1665795894e-2F;
  p = p * r + 1.6666665459e-1F;
  p = p * r + 5.0000001201e-1F;
  p = p * r * r + r + 1.0F;
  const auto exponent = static_cast<std::uint32_t>(static_cast<std::int32_t>(k) + 127) << 23U;
  return p * std::bit_cast<float>(exponent);
}
}  // namespace

KVLOUPE_VECTOR_CLONES
float largest_of(std::span<const float> values) {
  const float* const data = values.data();
  const std::size_t n = values.size();
  float largest = data[0];
#pragma omp simd reduction(max : largest)
  for (std::size_t i = 0; i < n; ++i) largest = data[i] > largest ? data[i] : largest;
  return largest;
}

KVLOUPE_VECTOR_CLONES
double exponentials(std::span<float> values, float shift, float scale) {
  float* const data = values.data();
  const std::size_t n = values.size();
  double total = 0.0;
  for (std::size_t first = 0; first < n; first += kChunk) {
    const std::size_t end = std::min(first + kChunk, n);
    float sum = 0.0F;
#pragma omp simd reduction(+ : sum)
    for (std::size_t i = first; i < end; ++i) {
      const float value = exponential(scale * (data[i] - shift));
      data[i] = value;
      sum += value;
    }
    total += static_cast<double>(sum);
  }
  return total;
}

KVLOUPE_VECTOR_CLONES
void add_scaled(float* sums, const float* values, std::size_t n, float factor) {
#pragma omp simd
  for (std::size_t i = 0; i < n; ++i) sums[i] += factor * values[i];
}

}  // namespace kvloupe
