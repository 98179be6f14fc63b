#include "capture/checkpoint/mxfp4.h"

#include <array>
#include <cmath>

namespace kvloupe {

void expand_mxfp4(const std::byte* blocks, const std::byte* scales, std::int64_t count,
                  float* numbers) {
  // Sign, two bits of exponent, one of mantissa.
  static constexpr std::array<float, 16> kValues{0.0F,  0.5F,  1.0F,  1.5F,  2.0F,  3.0F,
                                                 4.0F,  6.0F,  -0.0F, -0.5F, -1.0F, -1.5F,
                                                 -2.0F, -3.0F, -4.0F, -6.0F};
  constexpr int kBias = 127;
  for (std::int64_t block = 0; block < count; ++block) {
    const float scale = std::ldexp(1.0F, std::to_integer<int>(scales[block]) - kBias);
    for (std::int64_t i = 0; i < kMxfp4BlockBytes; ++i) {
      const auto two = std::to_integer<unsigned>(blocks[block * kMxfp4BlockBytes + i]);
      *numbers++ = kValues[two & 15U] * scale;
      *numbers++ = kValues[two >> 4U] * scale;
    }
  }
}

}  // namespace kvloupe
