// Limits of shares and probabilities end at 1, whoever chooses them.

#include "app/plot/value_axis.h"

#include <gtest/gtest.h>

#include <memory>

#include "app/export/figure_file.h"
#include "app/figure/figures/figure_catalog.h"
#include "app/request/figure_service.h"
#include "tests/support/synthetic_trace.h"
#include "tests/support/temporary_folder.h"

namespace kvloupe::figure {
namespace {

using Limits = std::pair<double, double>;

ColourScale chosen(ColourScale scale, std::optional<Limits> limits, Bounds bounds) {
  choose_limits(scale, limits, bounds);
  return scale;
}

TEST(Limits, AreCutToWhatAValueCanBe) {
  const ColourScale scale;  // 0 to 1
  EXPECT_EQ(chosen(scale, Limits{0.2, 3.0}, kShare).high, 1.0);
  EXPECT_EQ(chosen(scale, Limits{-1.0, 0.5}, kShare).low, 0.0);
  EXPECT_EQ(chosen(scale, Limits{0.2, 0.5}, kShare).low, 0.2);
  EXPECT_EQ(chosen(scale, Limits{0.2, 0.5}, kShare).high, 0.5);
  EXPECT_EQ(chosen(scale, Limits{-4.0, 30.0}, {}).high, 30.0);
  // Nothing chosen, or nothing that a value can be: its own.
  for (const auto& none : {std::optional<Limits>(), std::optional<Limits>({2.0, 5.0}),
                           std::optional<Limits>({-3.0, -1.0})}) {
    EXPECT_EQ(chosen(scale, none, kShare).low, 0.0);
    EXPECT_EQ(chosen(scale, none, kShare).high, 1.0);
  }
  // Its own are cut, too.
  ColourScale rounded;
  rounded.scale = AxisScale::log;
  rounded.low = 1e-4;
  rounded.high = 10.0;
  EXPECT_EQ(chosen(rounded, {}, kShare).high, 1.0);
  EXPECT_GT(chosen(rounded, Limits{0.0, 1.0}, kShare).low, 0.0);  // a log scale has no 0
}

TEST(Limits, OfASignedScaleAreSymmetric) {
  ColourScale scale;
  scale.is_signed = true;
  scale.low = -1.0;
  EXPECT_EQ(chosen(scale, Limits{-0.3, 0.1}, kCosine).high, 0.3);
  EXPECT_EQ(chosen(scale, Limits{-0.3, 0.1}, kCosine).low, -0.3);
  EXPECT_EQ(chosen(scale, Limits{-0.3, 7.0}, kCosine).high, 1.0);
  EXPECT_EQ(chosen(scale, Limits{-0.3, 7.0}, kCosine).low, -1.0);
}

TEST(Limits, RoomAroundAShareEndsWithIt) {
  ValueRange range;
  range.add(0.02);
  range.add(1.0);
  EXPECT_EQ(within(range.padded(), kShare).low, 0.0);
  EXPECT_EQ(within(range.padded(), kShare).high, 1.0);
  EXPECT_EQ(within(range.padded_log(), kShare).high, 1.0);
  EXPECT_LT(within(range.padded_log(), kShare).low, 0.02);
  // If every value is the largest possible one, there is still an axis.
  EXPECT_DOUBLE_EQ(within({1.0, 1.1}, kShare).low, 0.9);
  EXPECT_DOUBLE_EQ(within({1.0, 1.1}, kShare).high, 1.0);
  EXPECT_DOUBLE_EQ(within({-0.1, 0.0}, kShare).high, 0.1);
}

/// Axes that are colour bars or speak of attention, of a figure with these limits asked for.
void expect_no_axis_above_one(const Scene& scene, const std::string& what) {
  for (const Axes& axes : scene.axes) {
    if (axes.y.meaning != AxisMeaning::value || axes.y.label.find("ttention") == std::string::npos)
      continue;
    EXPECT_LE(std::max(axes.y.first, axes.y.last), 1.0) << what;
    EXPECT_GE(std::min(axes.y.first, axes.y.last), 0.0) << what;
  }
}

TEST(Limits, OfAttentionAreNeverAboveOneInAnyFigure) {
  const test::TemporaryFolder folder;
  test::SyntheticTraceOptions options;
  options.sink_logit = 30.0F;  // attention of 1, but for rounding
  test::write_synthetic_trace(folder / "trace.h5", options);
  const request::FigureMaker maker(std::make_shared<const Trace>(folder / "trace.h5"));
  const TextMetrics fonts;
  const std::vector<std::tuple<std::string, std::string, std::string>> all = {
      {"attention", "scale", "log"},           {"attention", "scale", "linear"},
      {"attention", "pooling", "max"},         {"attention", "pooling", "mean"},
      {"similarity", "beside", "attention"},   {"sinks", "show", "heads"},
      {"sinks", "show", "averages"},           {"sinks", "show", "norms"},
      {"budget-curve", "measure", "lost-mass"}};
  for (const auto& [name, key, value] : all) {
    const FigureInfo& info = find_figure(name);
    request::FigureSettings settings;
    settings.choices[key] = value;
    settings.head = 0;
    const MadeFigure made = maker.make(info, settings, test::unwatched);
    for (const auto& asked : {std::optional<Limits>(), std::optional<Limits>({1e-5, 50.0})}) {
      FileOptions file;
      file.limits = asked;
      expect_no_axis_above_one(page_of(info, made, file, fonts), name + " " + value);
    }
  }
}

}  // namespace
}  // namespace kvloupe::figure
