#include "capture/model/row_softmax.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "analysis/base/system/vectors.h"

namespace kvloupe {

namespace {

constexpr std::size_t kStretch = 512;  // values whose exponentials are added in float32

/// scale · log2(e) in two floats.
struct Factor {
  explicit Factor(float scale)
      : high(static_cast<float>(1.4426950408889634 * static_cast<double>(scale))),
        low(static_cast<float>(1.4426950408889634 * static_cast<double>(scale) -
                               static_cast<double>(high))) {}
  float high, low;
};

/// x becomes 2^(factor · x), for x <= 0, in a vector type and its vector of bits, or in float: 2^k
/// · 2^f with |f| <= 1/2 and a polynomial for 2^f. No conversion to an integer, which has no value
/// for a NaN: adding 1.5 · 2^23 + 127 rounds and leaves the exponent's bits k + 127 lowest; they
/// are none at k = −127.
template <typename Float, typename Bits>
inline __attribute__((always_inline)) void raise(Float& x, const Factor& factor) {
  constexpr float kRound = 12582912.0F + 127.0F;
  const Float none = Float{} - 127.0F / factor.high;
  x = x < none ? none : x;
  const Float shifted = x * factor.high + kRound;
  const Float k = shifted - kRound;
  const Float f = x * factor.low + (x * factor.high - k);
  Float p = Float{} + 1.535336188319500e-4F;
  p = p * f + 1.339887440266574e-3F;
  p = p * f + 9.618437357674640e-3F;
  p = p * f + 5.550332471162809e-2F;
  p = p * f + 2.402264791363012e-1F;
  p = p * f + 6.931472028550421e-1F;
  p = p * f + 1.0F;
  Bits bits;
  std::memcpy(&bits, &shifted, sizeof bits);
  bits <<= 23U;
  Float two_to_k;
  std::memcpy(&two_to_k, &bits, sizeof bits);
  x = p * two_to_k;
}

double plain_sum(float* values, std::size_t n, float largest, float scale, bool keep) {
  const Factor factor(scale);
  double total = 0.0;
  for (std::size_t i = 0; i < n; ++i) {
    float x = values[i] - largest;
    raise<float, std::uint32_t>(x, factor);
    if (keep) values[i] = x;
    total += static_cast<double>(x);
  }
  return total;
}

#ifdef KVLOUPE_VECTOR_KERNELS
/// Members of a struct, because a template argument (and auto) loses attributes.
struct Wide {
  typedef float Vector __attribute__((vector_size(64)));
  typedef std::uint32_t Bits __attribute__((vector_size(64)));
};
struct Half {
  typedef float Vector __attribute__((vector_size(32)));
  typedef std::uint32_t Bits __attribute__((vector_size(32)));
};

template <typename Width, bool kKeep>
inline __attribute__((always_inline)) double sum_all(float* values, std::size_t n, float largest,
                                                     float scale) {
  using Vector = typename Width::Vector;
  constexpr std::size_t kLanes = sizeof(Vector) / sizeof(float);
  const Factor factor(scale);
  double total = 0.0;
  for (std::size_t first = 0; first < n; first += kStretch) {
    const std::size_t end = std::min(first + kStretch, n);
    Vector sum{};
    std::size_t i = first;
    for (; i + kLanes <= end; i += kLanes) {
      Vector x;
      std::memcpy(&x, values + i, sizeof x);
      x -= largest;
      raise<Vector, typename Width::Bits>(x, factor);
      if constexpr (kKeep) std::memcpy(values + i, &x, sizeof x);
      sum += x;
    }
    for (std::size_t lane = 0; lane < kLanes; ++lane) total += static_cast<double>(sum[lane]);
    for (; i < end; ++i) {
      float x = values[i] - largest;
      raise<float, std::uint32_t>(x, factor);
      if constexpr (kKeep) values[i] = x;
      total += static_cast<double>(x);
    }
  }
  return total;
}

KVLOUPE_WIDE double wide_sum(float* values, std::size_t n, float largest, float scale, bool keep) {
  return keep ? sum_all<Wide, true>(values, n, largest, scale)
              : sum_all<Wide, false>(values, n, largest, scale);
}

KVLOUPE_HALF double half_sum(float* values, std::size_t n, float largest, float scale, bool keep) {
  return keep ? sum_all<Half, true>(values, n, largest, scale)
              : sum_all<Half, false>(values, n, largest, scale);
}
#else
constexpr auto wide_sum = plain_sum, half_sum = plain_sum;
#endif

}  // namespace

double sum_of_exponentials(float* values, std::size_t n, float largest, float scale, bool keep) {
  static const auto kernel = kernel_for_processor(wide_sum, half_sum, plain_sum);
  return kernel(values, n, largest, scale, keep);
}

}  // namespace kvloupe
