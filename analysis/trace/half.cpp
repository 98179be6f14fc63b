#include "analysis/trace/half.h"

#include <algorithm>
#include <array>
#include <bit>

#include "analysis/base/system/vector_clones.h"

namespace kvloupe {

namespace {
// Both directions are written without branches that depend on data, so that loops vectorise.

inline std::uint16_t to_half(float x) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(x);
  const std::uint32_t sign = (bits >> 16) & 0x8000U;
  const std::uint32_t magnitude = bits & 0x7fffffffU;
  // Normal halves: drop 13 bits, to nearest even, and rebias the exponent from 127 to 15.
  const std::uint32_t normal = (magnitude + 0xfffU + ((magnitude >> 13) & 1U) - (112U << 23)) >> 13;
  // Subnormal halves: beside 0.5 a float's last place is 2^-24, the half's own; the addition
  // rounds.
  const std::uint32_t subnormal =
      std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) + 0.5F) - (126U << 23);
  const std::uint32_t finite = magnitude < (113U << 23) ? subnormal : normal;
  const std::uint32_t overflow = magnitude > 0x7f800000U ? 0x7e00U : 0x7c00U;
  const std::uint32_t limit = std::bit_cast<std::uint32_t>(kHalfOverflow);
  return static_cast<std::uint16_t>(sign | (magnitude >= limit ? overflow : finite));
}

inline float from_half(std::uint16_t half) {
  const std::uint32_t sign = static_cast<std::uint32_t>(half & 0x8000U) << 16;
  const std::uint32_t magnitude = static_cast<std::uint32_t>(half & 0x7fffU) << 13;
  // Scaling by 2^112 rebiases the exponent, subnormals included.
  const std::uint32_t finite =
      std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) * 0x1p112F);
  const std::uint32_t special = magnitude | 0x7f800000U;
  return std::bit_cast<float>(sign | (magnitude >= (0x7c00U << 13) ? special : finite));
}
}  // namespace

std::uint16_t half_from_float(float x) { return to_half(x); }
float float_from_half(std::uint16_t bits) { return from_half(bits); }

KVLOUPE_VECTOR_CLONES
void halves_from_floats(std::span<const float> from, std::span<std::uint16_t> to) {
  const float* const in = from.data();
  std::uint16_t* const out = to.data();
  for (std::size_t i = 0, size = from.size(); i < size; ++i) out[i] = to_half(in[i]);
}

KVLOUPE_VECTOR_CLONES
void floats_from_halves(std::span<const std::uint16_t> from, std::span<float> to) {
  const std::uint16_t* const in = from.data();
  float* const out = to.data();
  for (std::size_t i = 0, size = from.size(); i < size; ++i) out[i] = from_half(in[i]);
}

bool are_halves(std::span<const float> values) {
  constexpr std::size_t kAtOnce = 4096;
  std::array<std::uint16_t, kAtOnce> narrow;
  std::array<float, kAtOnce> wide;
  for (std::size_t first = 0; first < values.size(); first += kAtOnce) {
    const std::span<const float> part =
        values.subspan(first, std::min(kAtOnce, values.size() - first));
    halves_from_floats(part, std::span(narrow).first(part.size()));
    floats_from_halves(std::span(narrow).first(part.size()), std::span(wide).first(part.size()));
    if (!std::equal(part.begin(), part.end(), wide.begin())) return false;
  }
  return true;
}

}  // namespace kvloupe
