#include "app/plot/ticks.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "app/plot/frame.h"
#include "app/plot/value_axis.h"
#include "app/scene/text_metrics.h"

namespace kvloupe::figure {
namespace {

TEST(Ticks, LinearTicksAreFewRoundAndInside) {
  std::mt19937 random(7);
  std::uniform_real_distribution<double> exponent(-6.0, 6.0);
  std::uniform_real_distribution<double> place(-1.0, 1.0);
  for (int i = 0; i < 2000; ++i) {
    const double scale = std::pow(10.0, exponent(random));
    const double a = place(random) * scale;
    const double b = place(random) * scale;
    if (std::abs(a - b) < 1e-3 * scale) continue;
    const int most = 2 + i % 7;
    const auto ticks = linear_ticks(a, b, most);
    ASSERT_LE(static_cast<int>(ticks.size()), most) << a << " to " << b;
    if (most >= 5) {
      ASSERT_GE(ticks.size(), 2U) << a << " to " << b;
    }
    const double slack = 1e-6 * std::abs(a - b);
    for (const Tick& tick : ticks) {
      EXPECT_GE(tick.value, std::min(a, b) - slack);
      EXPECT_LE(tick.value, std::max(a, b) + slack);
      EXPECT_EQ(tick.label.find('-'), std::string::npos) << "a hyphen is not a minus sign";
    }
    for (std::size_t t = 1; t < ticks.size(); ++t) {
      const double step = ticks[t].value - ticks[t - 1].value;
      const double mantissa = step / std::pow(10.0, std::floor(std::log10(step * (1 + 1e-9))));
      EXPECT_TRUE(std::abs(mantissa - 1) < 1e-6 || std::abs(mantissa - 2) < 1e-6 ||
                  std::abs(mantissa - 5) < 1e-6)
          << step;
      EXPECT_NE(ticks[t].label, ticks[t - 1].label);
    }
  }
}

TEST(Ticks, NothingForNoRange) {
  EXPECT_TRUE(linear_ticks(1.0, 1.0, 5).empty());
  EXPECT_TRUE(linear_ticks(0.0, std::nan(""), 5).empty());
  EXPECT_TRUE(log_ticks(0.0, 1.0, 5).empty());
  EXPECT_TRUE(index_ticks(3.0, 3.0, 5).empty());
}

TEST(Ticks, IndexTicksStandInTheMiddleOfTheirCell) {
  const auto ticks = index_ticks(0.0, 4.0, 10);
  ASSERT_EQ(ticks.size(), 4U);
  EXPECT_EQ(ticks[3].value, 3.5);
  EXPECT_EQ(ticks[3].label, "3");
  for (int count = 1; count < 3000; count += 37) {
    for (const Tick& tick : index_ticks(0.0, count, 6)) {
      EXPECT_LT(tick.value, count);
      EXPECT_EQ(tick.value - std::floor(tick.value), 0.5);
    }
    EXPECT_LE(index_ticks(0.0, count, 6).size(), 6U);
    EXPECT_GE(index_ticks(0.0, count, 6).size(), 1U);
  }
}

TEST(Ticks, LogTicksArePowersOfTen) {
  const auto ticks = log_ticks(1e-5, 1.0, 6);
  ASSERT_EQ(ticks.size(), 6U);
  EXPECT_EQ(ticks.front().label, "10⁻⁵");
  EXPECT_EQ(ticks.back().label, "1");
  EXPECT_EQ(log_ticks(1e-12, 1.0, 5).back().label, "1");
  EXPECT_LE(log_ticks(1e-12, 1.0, 5).size(), 5U);
  EXPECT_GE(log_ticks(2.0, 8.0, 5).size(), 2U);
}

TEST(Ticks, AnAxisHasTwoOrMoreThatDoNotTouch) {
  const TextMetrics fonts;
  const Style style = make_style(fonts);
  std::mt19937 random(11);
  std::uniform_real_distribution<double> part(0.0, 1.0);
  for (int i = 0; i < 4000; ++i) {
    const bool log = i % 2 == 0, horizontal = i % 4 < 2;
    const double low = std::pow(10.0, 3.0 * part(random));
    const double high = low * (1.5 + 100.0 * part(random) * part(random));
    const double length = 40.0 + 300.0 * part(random);
    ValueRange range;
    range.add(low);
    range.add(high);
    const AxisScale scale = log ? AxisScale::log : AxisScale::linear;
    const Axis axis = horizontal ? x_axis("x", range, scale) : y_axis("y", range, scale);
    const std::vector<Tick> ticks = axis_look(style, axis, length, horizontal).ticks;
    ASSERT_GE(ticks.size(), length < 60.0 ? 1U : 2U)
        << low << " to " << high << " on " << length << (log ? ", log" : "");
    for (std::size_t t = 1; t < ticks.size(); ++t) {
      const double gap =
          length * std::abs(axis.share_of(ticks[t].value) - axis.share_of(ticks[t - 1].value));
      const double widths = style.fonts->width(ticks[t - 1].label, Font::regular, style.small) +
                            style.fonts->width(ticks[t].label, Font::regular, style.small);
      EXPECT_GT(gap, horizontal ? widths / 2 : 0.9 * style.small)
          << ticks[t - 1].label << " and " << ticks[t].label << " on " << length;
    }
  }
}

TEST(Ticks, NumbersReadAsInPrint) {
  EXPECT_EQ(format_number(0.0), "0");
  EXPECT_EQ(format_number(1.0 / 3.0), "0.333");
  EXPECT_EQ(format_number(-12.345), "−12.3");
  EXPECT_EQ(format_number(9.996), "10.0");
  EXPECT_EQ(format_number(12345.0), "12\u2009345");
  EXPECT_EQ(format_number(1.5e-7), "1.5\u2009×\u200910⁻⁷");
  EXPECT_EQ(format_number(std::nan("")), "–");
  EXPECT_EQ(format_count(-1234567), "−1\u2009234\u2009567");
  EXPECT_EQ(format_count(4096), "4096");
}

}  // namespace
}  // namespace kvloupe::figure
