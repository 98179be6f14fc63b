#include "analysis/trace/half.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
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
  for (unsigned bits = 0; bits < 0x10000; ++bits) {
    const auto half = static_cast<std::uint16_t>(bits);
    const float value = float_from_half(half);
    if (std::isnan(meaning(half))) {
      EXPECT_TRUE(std::isnan(value));
      EXPECT_TRUE(std::isnan(float_from_half(half_from_float(value))));
    } else {
      ASSERT_EQ(value, meaning(half)) << bits;
      ASSERT_EQ(half_from_float(value), half);
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

TEST(Half, ArraysEqualSingles) {
  std::mt19937 random(7);
  std::vector<float> values(1001);
  for (float& x : values)
    x = std::ldexp(static_cast<float>(random() % 4001) - 2000, int(random() % 40) - 30);
  std::vector<std::uint16_t> halves(values.size());
  halves_from_floats(values, halves);
  std::vector<float> back(values.size());
  floats_from_halves(halves, back);
  for (std::size_t i = 0; i < values.size(); ++i) {
    EXPECT_EQ(halves[i], half_from_float(values[i]));
    EXPECT_EQ(back[i], float_from_half(halves[i]));
  }
}

}  // namespace
}  // namespace kvloupe
