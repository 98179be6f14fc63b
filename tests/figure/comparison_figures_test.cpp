// The numbers of the figures that compare, read from their CSV, beside plain counts over replays.

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <map>
#include <set>

#include "analysis/error.h"
#include "app/export/figure_file.h"
#include "app/figure/comparison.h"
#include "app/figure/figures/figure_catalog.h"
#include "app/request/figure_service.h"
#include "app/scene/colour_map.h"
#include "tests/figure/csv_rows.h"
#include "tests/support/record_values.h"
#include "tests/support/synthetic_trace.h"
#include "tests/support/temporary_folder.h"

namespace kvloupe::figure {
namespace {

using ::testing::HasSubstr;
using Row = test::CsvRow;

class ComparisonFigures : public ::testing::Test {
 protected:
  void SetUp() override {
    test::SyntheticTraceOptions options;
    options.clusters = 4;
    test::write_synthetic_trace(folder / "t.h5", options);
    trace = std::make_shared<const Trace>(folder / "t.h5");
  }

  MadeFigure make(const std::string& name, const request::FigureSettings& settings) {
    const request::FigureMaker maker(trace);
    return maker.make(find_figure(name), settings, test::unwatched);
  }

  /// The rows of a figure's CSV; no field here has a comma in it.
  std::vector<Row> rows_of(const std::string& name, const request::FigureSettings& settings) {
    const std::vector<Row> rows = test::csv_rows(*make(name, settings).figure);
    EXPECT_FALSE(rows.empty()) << name;
    return rows;
  }

  Replay replay_of_spec(const std::string& spec, int budget, bool metrics = false) {
    ReplayRequest request{.policy = parse_policy(spec), .budget = budget, .metrics = metrics};
    return replay(*trace, request, test::unwatched);
  }

  static std::set<int> kept(const Replay& replay, int layer, int head, int step) {
    std::set<int> tokens;
    const HeadReplay& one = head_of(replay, layer, head);
    for (int t = 0; t < replay.blocks[static_cast<std::size_t>(step)].end; ++t) {
      const int left = one.evicted_at[static_cast<std::size_t>(t)];
      if (left < 0 || left > step) tokens.insert(t);
    }
    return tokens;
  }

  test::TemporaryFolder folder;
  std::shared_ptr<const Trace> trace;
};

TEST_F(ComparisonFigures, HeadBudgetsAreWhatIsRetainedAndSumToTheBudget) {
  request::FigureSettings settings;
  settings.budget = parse_budget("24");
  settings.choices["policies"] = "h2o+adakv,keydiff";
  const std::vector<Row> rows = rows_of("head-budgets", settings);
  ASSERT_EQ(rows.size(), 8U);  // two policies, two layers, two heads
  const Replay adakv = replay_of_spec("h2o+adakv", 24);
  int sums[2] = {0, 0};
  for (const Row& row : rows) {
    const int layer = std::stoi(row.at("layer"));
    const int entries = std::stoi(row.at("entries"));
    if (row.at("policy") == "keydiff") {
      EXPECT_EQ(entries, 24);
      continue;
    }
    sums[layer] += entries;
    EXPECT_EQ(static_cast<std::size_t>(entries),
              kept(adakv, layer, std::stoi(row.at("head")), 2).size());
    EXPECT_NEAR(std::stod(row.at("share_of_budget")), entries / 24.0, 1e-6);
  }
  EXPECT_EQ(sums[0], 48);
  EXPECT_EQ(sums[1], 48);
}

/// The line of chance is what the same figure makes of the policy random with that protection.
TEST_F(ComparisonFigures, TheLineOfChanceIsRandomWithTheSameProtection) {
  request::FigureSettings settings;
  settings.choices = {{"policies", "h2o+sinks(2),keydiff+recent(25%)+every(4),full"},
                      {"budgets", "20,40"},
                      {"measure", "layer-error"}};
  const auto values = [&](const std::string& policy) {
    std::vector<std::string> found;
    for (const Row& row : rows_of("budget-curve", settings)) {
      if (row.at("policy") == policy) found.push_back(row.at("layer-error"));
    }
    return found;
  };
  const std::vector<std::string> lines[] = {values("random+sinks(2)"),
                                            values("random+recent(25%)+every(4)")};
  EXPECT_THAT(make("budget-curve", settings).figure->caption(), HasSubstr("random with what"));
  settings.choices["random"] = "hidden";
  EXPECT_TRUE(values("random+sinks(2)").empty());
  EXPECT_EQ(make("budget-curve", settings).figure->caption().find("random"), std::string::npos);
  settings.choices["policies"] = "random+sinks(2),random+recent(25%)+every(4)";
  EXPECT_EQ(lines[0], values("random+sinks(2)"));
  EXPECT_EQ(lines[1], values("random+recent(25%)+every(4)"));
  EXPECT_FALSE(lines[0].empty());
  EXPECT_NE(lines[0], lines[1]);
}

/// A strip of a long answer leaves the few steps of the prompt a good part of its height.
TEST_F(ComparisonFigures, AStripOfALongAnswerShowsThePromptsSteps) {
  test::SyntheticTraceOptions options{
      .layers = 1, .prompt_length = 64, .generated = 200, .block = 16};
  test::write_synthetic_trace(folder / "long.h5", options);
  trace = std::make_shared<const Trace>(folder / "long.h5");
  request::FigureSettings settings{.policy = parse_policy("h2o"), .budget = parse_budget("32")};
  const MadeFigure made = make("filmstrip", settings);
  const TextMetrics fonts;
  const Axis y = page_of(find_figure("filmstrip"), made, {}, fonts).axes.front().y;
  ASSERT_TRUE(y.knee.has_value());
  EXPECT_EQ(*y.knee, 4.0);
  EXPECT_GT(y.knee_share, 0.3);
  EXPECT_LT(y.knee_share, 0.41);
  EXPECT_THAT(made.figure->caption(), HasSubstr("times as high"));
}

TEST_F(ComparisonFigures, DifferencesAreCountedTokenByToken) {
  const Replay a = replay_of_spec("keydiff", 24);
  const Replay b = replay_of_spec("h2o", 24);
  for (const char* show : {"heads", "steps", "text"}) {
    request::FigureSettings settings{.policy_b = parse_policy("h2o"), .budget = parse_budget("24")};
    settings.choices["show"] = show;
    const std::vector<Row> rows = rows_of("policy-diff", settings);
    ASSERT_FALSE(rows.empty());
    std::set<std::string> seen;
    for (const Row& row : rows) {
      const int layer = std::stoi(row.at("layer"));
      const int head = std::stoi(row.at("head"));
      const int step = std::stoi(row.at("step"));
      const int token = std::stoi(row.at("token"));
      const bool in_a = kept(a, layer, head, step).contains(token);
      const bool in_b = kept(b, layer, head, step).contains(token);
      const char* expected = in_a && in_b ? "both" : in_a ? "a_only" : in_b ? "b_only" : "neither";
      EXPECT_EQ(row.at("kept"), expected) << show << " token " << token;
      seen.insert(row.at("kept"));
    }
    EXPECT_EQ(seen.size(), 4U) << show;
  }
}

/// More tokens than pixels: the light of the map is that of the tokens' fates by their shares, and
/// the legend says these shares.
TEST_F(ComparisonFigures, AMapOfManyTokensShowsTheSharesOfTheTokens) {
  test::SyntheticTraceOptions options{.prompt_length = 1200, .generated = 0, .block = 400};
  test::write_synthetic_trace(folder / "long.h5", options);
  trace = std::make_shared<const Trace>(folder / "long.h5");
  request::FigureSettings settings{.policy_b = parse_policy("h2o"), .budget = parse_budget("25%")};
  const MadeFigure made = make("policy-diff", settings);
  std::map<std::string, double> share;
  const std::vector<Row> rows = test::csv_rows(*made.figure);
  for (const Row& row : rows) share[row.at("kept")] += 1.0 / static_cast<double>(rows.size());
  ASSERT_EQ(rows.size(), 4U * 1200U);
  ASSERT_GT(share["a_only"], 0.1);
  ASSERT_GT(share["b_only"], 0.1);
  const TextMetrics fonts;
  for (const Theme theme : kThemes) {
    for (const double width : {120.0, 241.0}) {
      DrawRequest request;
      request.style = make_style(fonts, theme);
      request.width = width;
      request.height = 160.0;
      request.pixels_per_point = 96.0 / 72.0;
      const Scene scene = made.figure->draw(request);
      const auto image = std::find_if(scene.items.begin(), scene.items.end(), [](const Item& item) {
        return std::holds_alternative<Image>(item);
      });
      ASSERT_NE(image, scene.items.end());
      const Pixels& pixels = *std::get<Image>(*image).pixels;
      ASSERT_LT(pixels.width, 320);
      const Palette& p = request.style.colours;
      std::array<double, 3> found{}, expected{};
      for (std::size_t i = 0; i < pixels.rgba.size(); i += 4) {
        const Light light = light_of({pixels.rgba[i], pixels.rgba[i + 1], pixels.rgba[i + 2], 255});
        for (std::size_t c = 0; c < 3; ++c)
          found[c] += light[c] / static_cast<double>(pixels.rgba.size() / 4);
      }
      for (const auto& [name, colour] : {std::pair{"a_only", p.retained},
                                         {"b_only", p.evicted},
                                         {"both", p.both},
                                         {"neither", p.neither}}) {
        for (std::size_t c = 0; c < 3; ++c) expected[c] += share[name] * light_of(colour)[c];
      }
      for (std::size_t c = 0; c < 3; ++c)
        EXPECT_NEAR(found[c], expected[c], 0.003) << theme_name(theme) << " " << width;
      std::string texts;
      for (const Item& item : scene.items) {
        if (const Text* text = std::get_if<Text>(&item)) texts += text->text + "|";
      }
      if (width > 200.0) {
        EXPECT_THAT(texts, HasSubstr(fmt::format("A only {:.0f} %", 100.0 * share["a_only"])));
        EXPECT_THAT(texts, HasSubstr(fmt::format("neither {:.0f} %", 100.0 * share["neither"])));
      }
    }
  }
}

TEST_F(ComparisonFigures, AgreementIsJaccardsIndexAndHeadsAreSorted) {
  request::FigureSettings settings;
  settings.budget = parse_budget("24");
  settings.choices["policies"] = "keydiff,h2o,tova,B";  // there is no B
  const std::vector<Row> rows = rows_of("agreement", settings);
  ASSERT_EQ(rows.size(), 4U * 9U);
  std::vector<double> disagreement;  // of each head, in the order they come
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const Row& row = rows[i];
    const int layer = std::stoi(row.at("layer"));
    const int head = std::stoi(row.at("head"));
    const std::set<int> a = kept(replay_of_spec(row.at("policy"), 24), layer, head, 2);
    const std::set<int> b = kept(replay_of_spec(row.at("other"), 24), layer, head, 2);
    int both = 0;
    for (const int token : a) both += b.contains(token) ? 1 : 0;
    const double expected =
        static_cast<double>(both) /
        static_cast<double>(a.size() + b.size() - static_cast<std::size_t>(both));
    EXPECT_NEAR(std::stod(row.at("jaccard")), expected, 1e-8);
    if (row.at("policy") == row.at("other")) {
      EXPECT_EQ(row.at("jaccard"), "1");
    }
    if (i % 9 == 0) disagreement.push_back(0.0);
    disagreement.back() += (1.0 - expected) / 6.0;  // each pair twice
  }
  EXPECT_TRUE(std::is_sorted(disagreement.rbegin(), disagreement.rend()));
}

TEST_F(ComparisonFigures, CurvesAreMeansAndTheSafeBudgetIsTheSmallestWithinTheLimit) {
  request::FigureSettings settings;
  settings.choices["policies"] = "h2o";
  settings.choices["budgets"] = "80,8,24,24";
  settings.choices["random"] = "hidden";
  settings.choices["measure"] = "lost-mass";
  const std::vector<Row> rows = rows_of("budget-curve", settings);
  ASSERT_EQ(rows.size(), 4U * 3U);  // four heads, three budgets: none twice, ascending
  EXPECT_EQ(rows[0].at("budget"), "8");
  EXPECT_EQ(rows[2].at("budget"), "80");
  std::map<int, double> mean;
  for (const Row& row : rows) {
    const int budget = std::stoi(row.at("budget"));
    const Replay h2o = replay_of_spec("h2o", budget, true);
    const HeadReplay& head = head_of(h2o, std::stoi(row.at("layer")), std::stoi(row.at("head")));
    double sum = 0.0;
    int count = 0;
    bool evicting = false;
    for (const StepRecord& step : head.steps) {
      evicting = evicting || step.retained < step.cache_size;
      if (!evicting) continue;
      for (const QueryHeadMetrics& query_head : test::metrics_of(step)) {
        sum += 1.0 - query_head.retained_mass;
        ++count;
      }
    }
    EXPECT_NEAR(std::stod(row.at("lost-mass")), sum / count, 1e-7);
    mean[budget] += sum / count / 4.0;
  }
  ASSERT_GT(mean[8], mean[24]);
  ASSERT_GT(mean[24], mean[80]);
  const auto caption = [&](double limit) {
    settings.choices["limit"] = std::to_string(limit);
    return make("budget-curve", settings).figure->caption();
  };
  EXPECT_THAT(caption(0.5 * (mean[8] + mean[24])), HasSubstr("from N = 24 on"));
  EXPECT_THAT(caption(0.5 * (mean[24] + mean[80])), HasSubstr("from N = 80 on"));
  EXPECT_THAT(caption(mean[8] + 0.01), HasSubstr("from N = 8 on"));
  EXPECT_THAT(caption(0.5 * mean[80]), HasSubstr("at none of these budgets"));
}

TEST_F(ComparisonFigures, AMeasureThatATraceCannotHaveIsRefused) {
  test::SyntheticTraceOptions options{.output_weight = false, .value_out_norms = false};
  test::write_synthetic_trace(folder / "bare.h5", options);
  trace = std::make_shared<const Trace>(folder / "bare.h5");
  request::FigureSettings settings;
  settings.choices["policies"] = "h2o";
  EXPECT_NO_THROW(make("budget-curve", settings));
  settings.choices["measure"] = "perturbation";
  EXPECT_THROW(make("budget-curve", settings), WorkError);
}

TEST_F(ComparisonFigures, WhyTellsTheStoryOfAToken) {
  request::FigureSettings settings{.token = 0,
                                   .policy = parse_policy("keydiff+recent(4)+sinks(2)"),
                                   .budget = parse_budget("24")};
  const MadeFigure stays = make("why", settings);
  EXPECT_THAT(stays.figure->caption(), HasSubstr("stayed to the end"));
  EXPECT_THAT(stays.figure->caption(), HasSubstr("was protected"));
  // Without a token: the closest call among those the step evicted.
  settings.token.reset();
  const std::string caption = make("why", settings).figure->caption();
  EXPECT_THAT(caption, HasSubstr("evicted at once"));
  const std::vector<Row> rows = rows_of("why", settings);
  ASSERT_FALSE(rows.empty());
  EXPECT_THAT(rows.back().at("reason"), HasSubstr("evicted"));
  EXPECT_LE(std::stod(rows.back().at("margin")), 0.0);
  settings.token = 104;
  EXPECT_THROW(make("why", settings), UsageError);
}

TEST_F(ComparisonFigures, ATooLargeOrTooSmallNumberOfTracesIsRefused) {
  const request::FigureMaker two({trace, trace});
  EXPECT_THROW(two.make(find_figure("agreement"), {}, test::unwatched), UsageError);
  FigureInfo many = find_figure("agreement");
  many.needs.fewest_traces = 2;
  many.needs.most_traces = 3;
  EXPECT_THROW(request::FigureMaker(trace).make(many, {}, test::unwatched), UsageError);
  EXPECT_NO_THROW(two.make(many, {}, test::unwatched));
}

}  // namespace
}  // namespace kvloupe::figure
