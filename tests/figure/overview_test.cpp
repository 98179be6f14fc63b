// The figure overview beyond the catalogue's measures: what the window's grid shows, in parts too.

#include "analysis/replay/follow.h"
#include "app/figure/figures/overview_measures.h"
#include "tests/figure/made_figures.h"
#include "tests/figure/text_dump.h"
#include "tests/support/test.h"

namespace kvloupe::figure {
namespace {

using test::csv_number;
using test::csv_rows;

struct OverviewTest : ::testing::Test {
  void SetUp() override {
    inputs.traces = {test::open_synthetic_trace(folder / "t.h5", {.layers = 3})};
    settings.budget = parse_budget("24");
  }
  const FigureInfo& info() const { return find_figure("overview"); }
  MadeFigure make(const std::string& measure, const request::Meanwhile& meanwhile = {}) {
    settings.choices["measure"] = measure;
    return service.make(info(), request::make_request(info(), settings, inputs), inputs,
                        test::unwatched, meanwhile);
  }
  const Trace& trace() const { return *inputs.traces.front(); }

  test::TemporaryFolder folder;
  request::FigureInputs inputs;
  request::FigureSettings settings;
  request::FigureService service;
};

TEST_F(OverviewTest, EveryMeasureHasANumberOfEveryHeadAndIsDrawnInAPanelToo) {
  std::set<std::string> names, labels;
  for (const OverviewMeasure& one : overview_measures()) {
    EXPECT_TRUE(names.insert(one.name).second) << one.name;
    EXPECT_NE(one.label, "") << one.name;
    EXPECT_TRUE(labels.insert(one.label).second) << one.label;
    EXPECT_NE(one.help, "") << one.name;
    const MadeFigure made = make(one.name);
    EXPECT_EQ(csv_rows(*made.figure).size(), 6U) << one.name;
    DrawRequest narrow{.style = make_style(test::fonts()), .width = 120.0, .height = 260.0};
    const Scene scene = made.figure->draw(narrow);
    EXPECT_THAT(scene_problems(scene), IsEmpty()) << one.name;
    const auto target = scene.pick(scene.axes.front().to_page(0.5, 1.5));
    ASSERT_TRUE(target);
    EXPECT_EQ(target->layer, 1);
    EXPECT_EQ(target->head, 0);
  }
}

TEST_F(OverviewTest, TheRelativeScaleIsPercentFromTheMeanOfTheLayer) {
  settings.choices["scale"] = "relative";
  const MadeFigure made = make("perturbation_l1");
  const auto rows = csv_rows(*made.figure);
  ASSERT_EQ(rows.size(), 6U);
  for (std::size_t layer = 0; layer < 3; ++layer) {
    double mean = 0.0;
    for (std::size_t head = 0; head < 2; ++head)
      mean += csv_number(rows[2 * layer + head], "perturbation_l1") / 2.0;
    for (std::size_t head = 0; head < 2; ++head) {
      const auto& row = rows[2 * layer + head];
      EXPECT_NEAR(csv_number(row, "percent_from_layer_mean"),
                  100.0 * (csv_number(row, "perturbation_l1") / mean - 1.0), 1e-3);
    }
  }
  EXPECT_THAT(made.figure->caption(), HasSubstr("in percent of that mean"));
  EXPECT_THAT(made.figure->value_text({.layer = 0, .head = 0}),
              HasSubstr("% from its layer's mean"));
  // Values of both signs have no mean to divide by: the colours stay linear, and it is said.
  const MadeFigure with_signs = make("key_mean_cosine");
  bool negative = false;
  for (const auto& row : csv_rows(*with_signs.figure)) {
    negative |= csv_number(row, "key_mean_cosine") < 0.0;
    EXPECT_EQ(row.contains("percent_from_layer_mean"), false);
  }
  EXPECT_TRUE(negative) << "else this tests nothing";
  EXPECT_THAT(with_signs.figure->caption(), HasSubstr("the colours are linear"));
}

/// The values that the ends of the colour bar stand for.
std::pair<double, double> bar_of(const Figure& figure, double width) {
  DrawRequest request{.style = make_style(test::fonts()), .width = width};
  const Scene scene = figure.draw(request);
  EXPECT_THAT(scene_problems(scene), IsEmpty());
  for (const Axes& axes : scene.axes) {
    if (axes.x.meaning != AxisMeaning::head) {
      EXPECT_EQ(axes.y.scale == AxisScale::log,
                figure.caption().find("Logarithmic") != std::string::npos);
      return {axes.y.last, axes.y.first};
    }
  }
  return {};
}

TEST_F(OverviewTest, TheLogarithmicScaleGoesFromTheSmallestValueAboveZeroAndIsSaid) {
  std::vector<double> values;
  for (const auto& row : csv_rows(*make("perturbation_l1").figure))
    values.push_back(csv_number(row, "perturbation_l1"));
  const auto [least, most] = std::minmax_element(values.begin(), values.end());
  ASSERT_GT(*least, 0.0);
  settings.choices["scale"] = "log";
  const MadeFigure made = make("perturbation_l1");
  const auto [low, high] = bar_of(*made.figure, 260.0);
  EXPECT_NEAR(low, *least, 1e-6 * *least);
  EXPECT_NEAR(high, *most, 1e-6 * *most);
  EXPECT_THAT(made.figure->caption(), HasSubstr("Logarithmic colour scale."));
  settings.choices["scale"] = "linear";
  const auto [zero, top] = bar_of(*make("perturbation_l1").figure, 260.0);
  EXPECT_EQ(zero, 0.0);
  EXPECT_NEAR(top, *most, 1e-6 * *most);
  // By itself the scale is logarithmic exactly where values span two decades.
  settings.choices["scale"] = "auto";
  const bool spans = *most >= 100.0 * *least;
  EXPECT_EQ(make("perturbation_l1").figure->caption().find("Logarithmic") != std::string::npos,
            spans);
  settings.budget = parse_budget("100%");
  settings.choices["scale"] = "log";
  EXPECT_THAT(make("perturbation_l1").figure->caption(), HasSubstr("the colours are linear"))
      << "nothing was lost: all is 0";
}

TEST_F(OverviewTest, LogarithmicColoursSpanFourDecadesAtMost) {
  settings.choices["scale"] = "log";
  int cut = 0;
  for (const OverviewMeasure& one : overview_measures()) {
    if (one.from == OverviewMeasure::From::both_policies) continue;
    const MadeFigure made = make(one.name);
    const std::string caption = made.figure->caption();
    if (caption.find("Logarithmic") == std::string::npos) continue;
    const auto [low, high] = bar_of(*made.figure, 260.0);
    EXPECT_GE(low, 0.9999e-4 * high) << one.name;
    bool below = false;
    for (const auto& row : csv_rows(*made.figure)) {
      for (const auto& [name, text] : row)
        below |= name == one.name && csv_number(row, name) < 0.999 * low;
    }
    EXPECT_EQ(caption.find("have its lowest colour") != std::string::npos, below) << one.name;
    cut += below;
  }
  EXPECT_GT(cut, 0) << "else this tests nothing";
}

TEST_F(OverviewTest, WhatTheFullCacheShowsAsksForNoPolicy) {
  for (const OverviewMeasure& one : overview_measures()) {
    settings.choices["measure"] = one.name;
    const request::FigureRequest before = request::make_request(info(), settings, inputs);
    request::FigureSettings other = settings;
    other.policy = parse_policy("tova");
    other.budget = parse_budget("31");
    EXPECT_EQ(request::make_request(info(), other, inputs) == before,
              one.from == OverviewMeasure::From::trace)
        << one.name;
  }
}

TEST_F(OverviewTest, RolesAndEffectiveTokensAreMeansOverTheQueryHeads) {
  ReadsRequest wanted{.tokens = {0}};
  wanted.roles = wanted.effective_tokens = true;
  const std::vector<TokenReads> heads = token_reads(trace(), wanted, test::unwatched);
  const auto effective = csv_rows(*make(kEffectiveTokensMeasure).figure);
  for (std::size_t i = 0; i < heads.size(); ++i) {
    EXPECT_NEAR(csv_number(effective[i], kEffectiveTokensMeasure), heads[i].effective_tokens, 1e-5);
  }
  for (const RoleInfo& role : role_catalog()) {
    if (role.value == &HeadRoles::sink) continue;
    const auto rows = csv_rows(*make(role.name).figure);
    for (std::size_t i = 0; i < heads.size(); ++i) {
      double mean = 0.0;
      for (const HeadRoles& one : heads[i].roles)
        mean += one.*role.value / static_cast<double>(heads[i].roles.size());
      const double shown = csv_number(rows[i], role.name);
      EXPECT_TRUE(std::isnan(mean) ? std::isnan(shown) : std::abs(shown - mean) < 1e-6)
          << role.name;
    }
  }
}

TEST_F(OverviewTest, FollowedTokensAreThereOrLostAndSomebodyReadsThem) {
  settings.choices["tokens"] = "3-5,40";
  const MadeFigure made = make(kFollowedMeasure);
  const Replay whole = replay(trace(), {.policy = settings.policy, .budget = 24}, test::unwatched);
  ReadsRequest reading{.tokens = {3, 4, 5, 40}};
  const std::vector<TokenReads> reads = token_reads(trace(), reading, test::unwatched);
  const auto rows = csv_rows(*made.figure);
  ASSERT_EQ(rows.size(), whole.heads.size());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const TokenFate fate = token_fate(whole, whole.heads[i], reading.tokens);
    EXPECT_NEAR(csv_number(rows[i], kFollowedMeasure), fate.share[2], 1e-6);
    EXPECT_NEAR(csv_number(rows[i], "read"), reads[i].read, 1e-6);
  }
  EXPECT_THAT(made.figure->value_text({.layer = 0, .head = 0}),
              HasSubstr("of 4 tokens still there"));
  settings.choices["tokens"] = "nowhere";
  EXPECT_THROW(make(kFollowedMeasure), UsageError);
}

TEST_F(OverviewTest, OverlapNeedsTwoPolicies) {
  settings.choose_policy_b = false;
  EXPECT_THROW(make(kOverlapMeasure), UsageError);
  settings.policy_b = settings.policy;
  for (const auto& row : csv_rows(*make(kOverlapMeasure).figure))
    EXPECT_EQ(csv_number(row, kOverlapMeasure), 1.0) << "with itself";
}

TEST_F(OverviewTest, APartTakesWhatItLacksFromWhatIsShown) {
  for (const char* measure : {kEntriesMeasure, "retained_mass"}) {
    settings.budget = parse_budget("24");
    const MadeFigure before = make(measure);
    settings.budget = parse_budget("31");
    int parts = 0;
    request::Meanwhile meanwhile;
    meanwhile.shown = before.figure;
    meanwhile.layer = 2;
    meanwhile.on_part = [&](const MadeFigure& part) {
      ++parts;
      EXPECT_FALSE(part.complete);
      for (const auto& row : csv_rows(*part.figure)) EXPECT_NE(row.at(measure), "") << measure;
    };
    const auto old = csv_rows(*before.figure), now = csv_rows(*make(measure, meanwhile).figure);
    if (measure == std::string(kEntriesMeasure)) {
      EXPECT_GT(parts, 0);
    }
    ASSERT_EQ(old.size(), now.size());
    for (std::size_t i = 0; i < now.size(); ++i)
      EXPECT_NE(old[i].at(measure), now[i].at(measure)) << "of another budget";
  }
}

}  // namespace
}  // namespace kvloupe::figure
