// The density behind a ridge.

#include "app/plot/ridge_plot.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

namespace kvloupe::figure {
namespace {

std::size_t peak_of(const std::vector<double>& heights) {
  return static_cast<std::size_t>(std::max_element(heights.begin(), heights.end()) -
                                  heights.begin());
}

TEST(Density, OfANormalSampleIsItsBell) {
  std::mt19937 random(3);
  std::normal_distribution<float> normal(40.0F, 8.0F);
  std::vector<float> values;
  for (int i = 0; i < 20000; ++i) values.push_back(normal(random));
  const std::vector<double> heights = density(values, 0.0, 100.0, 100);
  ASSERT_EQ(heights.size(), 100U);
  EXPECT_DOUBLE_EQ(*std::max_element(heights.begin(), heights.end()), 1.0);
  for (int i = 0; i < 100; ++i) {
    const double away = (i + 0.5 - 40.0) / 8.0;
    EXPECT_NEAR(heights[static_cast<std::size_t>(i)], std::exp(-0.5 * away * away), 0.08) << i;
  }
}

TEST(Density, LeavesOutWhatIsOutsideOrNoNumber) {
  const std::vector<float> values = {25.0F, 25.0F, -3.0F, 400.0F,
                                     std::numeric_limits<float>::quiet_NaN()};
  const std::vector<double> heights = density(values, 0.0, 50.0, 50);
  EXPECT_EQ(peak_of(heights), 25U);
  EXPECT_EQ(heights.front(), 0.0);
  EXPECT_EQ(heights.back(), 0.0);
  for (const double one : density(std::vector<float>{}, 0.0, 1.0, 10)) EXPECT_EQ(one, 0.0);
}

TEST(Density, TwoClumpsHaveTwoPeaks) {
  std::vector<float> values;
  for (int i = 0; i < 100; ++i) {
    values.push_back(20.0F + 0.05F * static_cast<float>(i % 10));
    values.push_back(80.0F + 0.05F * static_cast<float>(i % 10));
  }
  // Silverman's width is wide for two clumps; a valley between them must be left all the same.
  const std::vector<double> heights = density(values, 0.0, 100.0, 100);
  EXPECT_LT(heights[50], 0.8 * heights[20]);
  EXPECT_NEAR(heights[20], heights[80], 0.05);
}

}  // namespace
}  // namespace kvloupe::figure
