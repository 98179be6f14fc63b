#include "analysis/trace/output_weight.h"

#include <gtest/gtest.h>

#include <limits>
#include <memory>
#include <random>

#include "analysis/trace/half.h"

namespace kvloupe {
namespace {

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
