#include "analysis/trace/half.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

namespace kvloupe {
namespace {

/// The value binary16 bits stand for, as the standard writes it.
double meaning(std::uint16_t bits) {
  const double sign = (bits & 0x8000) != 0 ? -1.0 : 1.0;
  const int exponent = (bits >> 10) & 31;
  const double fraction = (bits & 0x3ff) / 1024.0;
  if (exponent == 31) return fraction == 0.0 ? sign * INFINITY : NAN;
  if (exponent == 0) return sign * std::ldexp(fraction, -14);
  return sign * std::ldexp(1.0 + fraction, exponent - 15);
}

TEST(Half, EveryHalfMeansWhatTheStandardSaysAndComesBack) {
  std::vector<std::uint16_t> halves(0x10000), back(halves.size());
  std::iota(halves.begin(), halves.end(), std::uint16_t{0});
  std::vector<float> values(halves.size());
  floats_from_halves(halves, values);
  halves_from_floats(values, back);
  for (const std::uint16_t half : halves) {
    const float value = float_from_half(half);
    if (std::isnan(meaning(half))) {
      EXPECT_TRUE(std::isnan(value) && std::isnan(values[half]));
      EXPECT_TRUE(std::isnan(float_from_half(half_from_float(value))));
      EXPECT_TRUE(std::isnan(float_from_half(back[half])));
    } else {
      ASSERT_EQ(value, meaning(half)) << half;
      ASSERT_EQ(values[half], value) << half;
      ASSERT_EQ(half_from_float(value), half);
      ASSERT_EQ(back[half], half);
    }
  }
}

TEST(Half, RoundsToTheNearestTiesToEven) {
  for (unsigned bits = 0; bits < 0x7bff; ++bits) {  // every pair of finite neighbours
    const auto low = static_cast<std::uint16_t>(bits);
    const double a = meaning(low), b = meaning(static_cast<std::uint16_t>(bits + 1));
    const auto middle = static_cast<float>((a + b) / 2);  // exact in float32
    const std::uint16_t even = bits % 2 == 0 ? low : static_cast<std::uint16_t>(bits + 1);
    ASSERT_EQ(half_from_float(middle), even) << bits;
    ASSERT_EQ(half_from_float(std::nextafter(middle, 0.0F)), low);
    ASSERT_EQ(half_from_float(-std::nextafter(middle, 1e6F)), (bits + 1) | 0x8000);
  }
}

TEST(Half, OverflowIsInfinityFromTheNamedLimitOn) {
  EXPECT_EQ(half_from_float(std::nextafter(kHalfOverflow, 0.0F)), 0x7bff);
  EXPECT_EQ(half_from_float(kHalfOverflow), 0x7c00);
  EXPECT_EQ(half_from_float(-std::numeric_limits<float>::max()), 0xfc00);
  EXPECT_EQ(half_from_float(-INFINITY), 0xfc00);
  EXPECT_EQ(half_from_float(-1e-30F), 0x8000);
}

TEST(Half, AreHalvesWhereNoNumberChanges) {
  std::vector<float> values;
  for (unsigned bits = 0; bits < 0x10000; ++bits) {
    const float value = float_from_half(static_cast<std::uint16_t>(bits));
    if (std::isfinite(value)) values.push_back(value);
  }
  EXPECT_TRUE(are_halves(values));
  EXPECT_TRUE(are_halves({}));
  for (const float other : {0.1F, std::nextafter(1.0F, 2.0F), 0x1p-25F, 65520.0F, NAN}) {
    for (const std::size_t at : {std::size_t{0}, std::size_t{5000}, values.size() - 1}) {
      std::vector<float> changed = values;
      changed[at] = other;
      EXPECT_FALSE(are_halves(changed)) << other << " at " << at;
    }
  }
}

}  // namespace
}  // namespace kvloupe
