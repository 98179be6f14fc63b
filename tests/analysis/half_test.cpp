#include "analysis/trace/half.h"
#include "analysis/trace/output_weight.h"
#include "tests/support/test.h"

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

/// Numbers that a half holds exactly; columns around the size of the pieces that are summed.
Matrix some_weight(Eigen::Index rows, Eigen::Index cols) {
  std::mt19937 random(7);
  std::normal_distribution<float> normal;
  Matrix weight(rows, cols);
  for (Eigen::Index i = 0; i < weight.size(); ++i) {
    weight.data()[i] = float_from_half(half_from_float(normal(random)));
  }
  return weight;
}

OutputWeight as_halves(const Matrix& weight) {
  const auto count = static_cast<std::size_t>(weight.size());
  const std::shared_ptr<std::uint16_t[]> halves(new std::uint16_t[count]);
  halves_from_floats({weight.data(), count}, {halves.get(), count});
  return {weight.rows(), weight.cols(), halves};
}

TEST(OutputWeight, HalvesAndFloatsGiveTheSameNumbers) {
  for (const Eigen::Index cols : {1, 7, 1023, 1024, 1025, 3000}) {
    const Matrix weight = some_weight(5, cols);
    const OutputWeight floats(weight), halves = as_halves(weight);
    EXPECT_EQ(halves.bytes() * 2, floats.bytes());
    Matrix room;
    EXPECT_EQ(halves.floats(room), weight);
    EXPECT_EQ(&floats.floats(room), &floats.floats(room)) << "not copied";
    EXPECT_EQ(halves(4, cols - 1), weight(4, cols - 1));
    Eigen::VectorXd x(5);
    x << 0.3, -2.0, 1e-9, 0.0, 7.5;
    const Eigen::VectorXd of_halves = halves.apply(x);
    EXPECT_EQ(of_halves, floats.apply(x));
    for (Eigen::Index c = 0; c < cols; ++c) {
      double expected = 0.0;
      for (Eigen::Index r = 0; r < 5; ++r) expected += x[r] * static_cast<double>(weight(r, c));
      ASSERT_NEAR(of_halves[c], expected, 1e-14);
    }
  }
}

TEST(OutputWeight, ANumberThatIsNotFiniteIsFound) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (const float bad : {kInfinity, -kInfinity, std::numeric_limits<float>::quiet_NaN()}) {
    for (const Eigen::Index col : {0, 40, 99}) {
      Matrix weight = some_weight(4, 100);
      EXPECT_EQ(OutputWeight(weight).first_row_not_finite(), -1);
      EXPECT_EQ(as_halves(weight).first_row_not_finite(), -1);
      weight(2, col) = bad;
      EXPECT_EQ(OutputWeight(weight).first_row_not_finite(), 2);
      EXPECT_EQ(as_halves(weight).first_row_not_finite(), 2);
    }
  }
}

}  // namespace
}  // namespace kvloupe
