// What pictures side by side share, and what captions say of layers without a cache.

#include "app/figure/panel_figure.h"

#include <gmock/gmock.h>

#include <memory>
#include <string>

#include "app/figure/figures/figure_catalog.h"
#include "app/plot/value_axis.h"
#include "app/request/figure_service.h"
#include "tests/support/synthetic_trace.h"
#include "tests/support/temporary_folder.h"

namespace kvloupe::figure {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

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
  PanelGrid grid;
  grid.panels = {{"", x_axis("x", {0, 5}), y_axis("y", {1, 2})}};
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

class FiguresOfOneHead : public ::testing::Test {
 protected:
  /// A figure of a head of a trace of two layers.
  std::shared_ptr<const Figure> made(const std::string& name, const std::string& policy,
                                     bool without_a_cache = false, const std::string& show = "") {
    test::SyntheticTraceOptions options;
    options.layers = 2;
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
    const TextMetrics fonts;
    DrawRequest request;
    request.style = make_style(fonts);
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

}  // namespace
}  // namespace kvloupe::figure
