// Limits of shares and probabilities end at 1, whoever chooses them.

#include "app/document/figure_file.h"
#include "app/figure/panel_figure.h"
#include "app/plot/frame.h"
#include "app/plot/marks.h"
#include "app/plot/ticks.h"
#include "app/plot/value_axis.h"
#include "tests/figure/made_figures.h"
#include "tests/support/test.h"

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
  ColourScale rounded{.scale = AxisScale::log, .low = 1e-4, .high = 10.0};
  EXPECT_EQ(chosen(rounded, {}, kShare).high, 1.0);
  EXPECT_GT(chosen(rounded, Limits{0.0, 1.0}, kShare).low, 0.0);  // a log scale has no 0
}

TEST(Limits, OfASignedScaleAreSymmetric) {
  ColourScale scale{.is_signed = true, .low = -1.0};
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
  const request::FigureMaker maker(test::open_synthetic_trace(folder / "trace.h5", options));
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
      FileOptions file{.limits = asked};
      expect_no_axis_above_one(page_of(info, made, file, test::fonts()), name + " " + value);
    }
  }
}

// What pictures side by side share, and what captions say of layers without a cache.

std::vector<Axes> axes_of(ValueRange x, ValueRange y, AxisScale scale = AxisScale::linear) {
  return {{{}, x_axis("x", x), y_axis("y", y, scale)}};
}

TEST(PanelLimits, HoldTheValuesOfBothPictures) {
  const auto shared = shared_limits(axes_of({0, 5}, {1, 2}), axes_of({2, 9}, {-3, 1.5}));
  ASSERT_EQ(shared.size(), 1U);
  EXPECT_EQ(shared[0].x, std::pair(0.0, 9.0));
  EXPECT_EQ(shared[0].y, std::pair(2.0, -3.0)) << "as the axis runs, from the top";
  const auto other =
      shared_limits(axes_of({0, 5}, {1, 2}), axes_of({0, 5}, {1, 8}, AxisScale::log));
  EXPECT_FALSE(other[0].y) << "another scale";
  EXPECT_TRUE(shared_limits(axes_of({0, 5}, {1, 2}), {}).empty()) << "other panels";
  std::vector<Axes> named = axes_of({0, 5}, {1, 2});
  named[0].x.names = {"a", "b"};
  EXPECT_FALSE(shared_limits(named, named)[0].x) << "names are no values";
}

TEST(PanelLimits, AreShownUnlessAPersonChoseAPart) {
  PanelGrid grid{.panels = {{"", x_axis("x", {0, 5}), y_axis("y", {1, 2})}}};
  DrawRequest request;
  show_limits(request, grid);
  EXPECT_EQ(grid.panels[0].y.first, 2.0) << "nothing is asked for";
  request.panels = {{std::pair(0.0, 9.0), std::pair(7.0, -3.0)}};
  show_limits(request, grid);
  EXPECT_EQ(grid.panels[0].x.last, 9.0);
  EXPECT_EQ(grid.panels[0].y.first, 7.0);
  EXPECT_EQ(grid.panels[0].y.last, -3.0);
  request.y_range = {0.0, 1.0};
  grid.panels[0].y = y_axis("y", {0, 1});
  show_limits(request, grid);
  EXPECT_EQ(grid.panels[0].y.first, 1.0);
}

struct FiguresOfOneHead : ::testing::Test {
  /// A figure of a head of a trace of two layers.
  std::shared_ptr<const Figure> made(const std::string& name, const std::string& policy,
                                     bool without_a_cache = false, const std::string& show = "") {
    test::SyntheticTraceOptions options{.layers = 2};
    if (without_a_cache) {
      options.layer_attributes.resize(2);
      options.layer_attributes[0].kind = LayerKind::none;
      options.layer_attributes[0].mixer = "Mamba-2";
    }
    const auto path = folder_ / (without_a_cache ? "hybrid.h5" : "plain.h5");
    if (!std::filesystem::exists(path)) test::write_synthetic_trace(path, options);
    const auto trace = std::make_shared<const Trace>(path);
    request::FigureSettings settings{
        .layer = 1, .policy = parse_policy(policy), .budget = parse_budget("50%")};
    if (name == "follow") settings.choices["tokens"] = "3-5";
    if (!show.empty()) settings.choices["show"] = show;
    return request::FigureMaker(trace).make(find_figure(name), settings, test::unwatched).figure;
  }
  test::TemporaryFolder folder_;
};

TEST_F(FiguresOfOneHead, SayWhatAThinLineIsWhereThereIsOne) {
  for (const char* name :
       {"overview", "head-budgets", "follow", "perturbation-heads", "roles", "sinks"}) {
    EXPECT_THAT(made(name, "h2o+critical", true)->caption(),
                HasSubstr(" A thin line is a layer without a cache."))
        << name;
    EXPECT_THAT(made(name, "h2o+critical")->caption(), Not(HasSubstr("thin line"))) << name;
  }
}

/// Two heads side by side are read against the same axes of values, in each of these figures.
TEST_F(FiguresOfOneHead, PicturesShowTheLimitsThatTheyShare) {
  for (const char* name : {"keydiff-stages", "why", "merge-sets", "score-vs-attention", "sinks"}) {
    SCOPED_TRACE(name);
    const auto figure = made(name, name == std::string("merge-sets") ? "h2o+kvmerger" : "keydiff",
                             false, name == std::string("sinks") ? "norms" : "");
    DrawRequest request{.style = make_style(test::fonts())};
    std::vector<Axes> own;
    for (const Axes& axes : figure->draw(request).axes) {
      if (!axes.x.label.empty() || axes.plot.width >= 12.0) own.push_back(axes);  // no colour bar
    }
    const auto has_values = [](const Axis& axis) {
      return axis.meaning == AxisMeaning::value && axis.names.empty() && !axis.knee;
    };
    const auto wider = [](const Axis& axis) {
      return axis.scale == AxisScale::log
                 ? std::pair(axis.first, axis.last * axis.last / axis.first)
                 : std::pair(axis.first, axis.last + (axis.last - axis.first));
    };
    for (const Axes& axes : own) {
      PanelLimits& limits = request.panels.emplace_back();
      if (has_values(axes.x)) limits.x = wider(axes.x);
      if (has_values(axes.y)) limits.y = wider(axes.y);
    }
    const std::vector<Axes> shown = figure->draw(request).axes;
    ASSERT_GE(shown.size(), own.size());
    int wide = 0;
    for (std::size_t i = 0; i < own.size(); ++i) {
      if (const auto& x = request.panels[i].x) {
        EXPECT_EQ(std::pair(shown[i].x.first, shown[i].x.last), *x) << own[i].x.label;
        ++wide;
      }
      if (own[i].y.label == "Distance") continue;  // a map's rows
      if (const auto& y = request.panels[i].y) {
        EXPECT_EQ(std::pair(shown[i].y.first, shown[i].y.last), *y) << own[i].y.label;
        ++wide;
      }
    }
    EXPECT_GE(wide, 2);
  }
}

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
  const Style style = make_style(test::fonts());
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

// The density behind a ridge.

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
    EXPECT_NEAR(heights[i], std::exp(-0.5 * away * away), 0.08) << i;
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
