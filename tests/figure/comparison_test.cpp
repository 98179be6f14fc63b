// The parts of comparisons: typed lists, panels that share their axes, numbers behind box plots.

#include "app/figure/comparison.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <string>
#include <variant>

#include "analysis/error.h"
#include "analysis/measure/measure_catalog.h"
#include "app/plot/box_plot.h"
#include "app/plot/line_plot.h"
#include "app/plot/panels.h"
#include "app/plot/value_axis.h"
#include "tests/figure/text_dump.h"
#include "tests/support/synthetic_trace.h"
#include "tests/support/temporary_folder.h"

namespace kvloupe::figure {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::string refusal(const ChoiceInfo& choice, const std::string& text) {
  try {
    check_value("some-figure", choice, text);
  } catch (const UsageError& error) {
    return error.what();
  }
  return {};
}

TEST(Choice, ListsSplitOutsideParenthesesAndQuotes) {
  EXPECT_THAT(split_list("keydiff, h2o+kvmerger(recent=17%,heavy=12%) ,expr(\"a,b)\")"),
              ElementsAre("keydiff", "h2o+kvmerger(recent=17%,heavy=12%)", "expr(\"a,b)\")"));
  EXPECT_THAT(split_list(" 1,,2"), ElementsAre("1", "", "2"));
  EXPECT_THAT(split_list("  "), IsEmpty());
}

TEST(Choice, PoliciesKnowAAndBAndComeOnce) {
  const PolicySpec a = parse_policy("keydiff");
  const PolicySpec b = parse_policy("h2o+recent(20%)");
  const auto texts = [](const std::vector<PolicySpec>& policies) {
    std::vector<std::string> all;
    for (const PolicySpec& policy : policies) all.push_back(policy.text());
    return all;
  };
  EXPECT_THAT(texts(parse_policies("A,B,tova,keydiff", a, &b)),
              ElementsAre("keydiff", "h2o+recent(20%)", "tova"));
  EXPECT_THAT(texts(parse_policies("B,tova", a, nullptr)), ElementsAre("tova"));
  EXPECT_THAT(texts(parse_policies("B", a, nullptr)), ElementsAre("keydiff"));
}

TEST(Choice, WrongTextsAreRefusedWithTheChoiceNamed) {
  EXPECT_THAT(refusal(policies_choice("A"), "h2o,keydif"), HasSubstr("keydiff"));
  EXPECT_THAT(refusal(policies_choice("A"), "h2o,keydif"), HasSubstr("policies="));
  EXPECT_THAT(refusal(policies_choice("A"), "h2o,,tova"), HasSubstr("remove a comma"));
  EXPECT_THAT(refusal(policies_choice("A"), ""), HasSubstr("empty"));
  EXPECT_THAT(refusal(budgets_choice("25%"), "10%,zero"), HasSubstr("zero"));
  EXPECT_THAT(refusal(blocks_choice("all"), "32,0"), HasSubstr("'0'"));
  EXPECT_THAT(refusal(blocks_choice("all"), "32,1.5"), HasSubstr("'1.5'"));
  const ChoiceInfo limit = number_choice("limit", "Limit", "", "0.1", 0.0, 1.0);
  EXPECT_THAT(refusal(limit, "1.5"), HasSubstr("not within 0 to 1"));
  EXPECT_THAT(refusal(limit, "nan"), HasSubstr("not a number"));
  EXPECT_THAT(refusal(limit, "0.1,0.2"), HasSubstr("not a number"));
  EXPECT_EQ(refusal(limit, "0.25"), "");
  EXPECT_EQ(refusal(blocks_choice("all"), "32, 128,all"), "");
}

TEST(ProgressParts, CountAsTheirWeightAndPassOnCancellation) {
  Progress whole;
  whole.set_total(200);
  Progress first(whole, 100);
  first.set_total(4);
  first.advance(2);
  EXPECT_DOUBLE_EQ(whole.fraction(), 0.25);
  first.finish();
  EXPECT_DOUBLE_EQ(whole.fraction(), 0.5);
  Progress second(whole, 100);
  Progress inner(second, 10);
  second.set_total(10);
  inner.set_total(1);
  inner.advance();
  EXPECT_DOUBLE_EQ(whole.fraction(), 1.0);
  whole.cancel();
  EXPECT_THROW(inner.advance(), Cancelled);
}

TEST(ReplaysOf, MeasureWhatIsAskedAsAReplayWithEveryMeasure) {
  test::TemporaryFolder folder;
  test::write_synthetic_trace(folder / "trace.h5");
  const auto trace = std::make_shared<const Trace>(folder / "trace.h5");
  FigureInput input;
  input.trace = trace;
  input.traces = {trace};
  input.budget = parse_budget("16");
  input.replays = std::make_shared<ReplayService>();
  const int last = static_cast<int>(replay_blocks(*trace, 0, {}).size()) - 1;
  std::vector<WantedReplay> wanted;
  for (const char* spec : {"h2o", "tova", "h2o+kvmerger(auto)"}) {
    WantedReplay one{.policy = parse_policy(spec)};
    one.measures = {"perturbation_l1", "output_norm_l2"};
    one.steps = {1, last};
    wanted.push_back(one);
    one.layers = {1};
    one.steps = {};
    wanted.push_back(one);
    wanted.push_back({.policy = parse_policy(spec)});
  }
  Progress progress;
  const auto replays = replays_of(input, wanted, progress, kReplaySteps);
  const double all = static_cast<double>(wanted.size());
  EXPECT_DOUBLE_EQ(progress.fraction(), all / (all + 1.0));  // the rest is the caller's
  ASSERT_EQ(replays.size(), wanted.size());
  const Measure& lost = require_measure("perturbation_l1");
  const Measure& output = require_measure("output_norm_l2");
  for (std::size_t i = 0; i < replays.size(); ++i) {
    ReplayRequest request{.policy = wanted[i].policy, .budget = 16, .layers = wanted[i].layers};
    const Replay whole = replay(*trace, request, test::unwatched);
    ASSERT_EQ(replays[i]->heads.size(), whole.heads.size());
    for (std::size_t h = 0; h < whole.heads.size(); ++h) {
      for (int step = 0; step <= last; ++step) {
        const StepRecord& own = replays[i]->heads[h].steps.at(static_cast<std::size_t>(step));
        const StepRecord& full = whole.heads[h].steps.at(static_cast<std::size_t>(step));
        const bool measured =
            !wanted[i].measures.empty() &&
            (wanted[i].steps.empty() || step == wanted[i].steps[0] || step == last);
        ASSERT_EQ(own.measured(), measured) << i << " " << step;
        EXPECT_EQ(own.merge_measures.size(), measured ? full.merge_measures.size() : 0U);
        for (int q = 0; measured && q < static_cast<int>(full.query_heads.size()); ++q) {
          EXPECT_EQ(measure_at(lost, own, q), measure_at(lost, full, q)) << i << " " << step;
          EXPECT_EQ(measure_at(output, own, q), measure_at(output, full, q)) << i << " " << step;
        }
      }
    }
  }
}

TEST(BoxNumbers, AreQuartilesWhiskersAndOutliers) {
  // Sorted 1 2 3 4 100: quartiles at places 1, 2, 3 of 0 to 4 are 2, 3, 4; reach 1.5 · 2 = 3, so
  // whiskers within −1 to 7 end at 1 and 4, and 100 is beyond.
  const std::vector<double> values{100, 3, std::numeric_limits<double>::quiet_NaN(), 1, 4, 2};
  const BoxNumbers box = box_numbers(values);
  EXPECT_EQ(box.count, 5U);
  EXPECT_DOUBLE_EQ(box.first_quartile, 2.0);
  EXPECT_DOUBLE_EQ(box.median, 3.0);
  EXPECT_DOUBLE_EQ(box.third_quartile, 4.0);
  EXPECT_DOUBLE_EQ(box.low, 1.0);
  EXPECT_DOUBLE_EQ(box.high, 4.0);
  EXPECT_THAT(box.outliers, ElementsAre(100.0));
  // Places 0.9 of 0 to 4 is 3.6: 4 + 0.6 · 96.
  EXPECT_DOUBLE_EQ(quantile(values, 0.9), 61.6);
  EXPECT_TRUE(std::isnan(quantile({}, 0.5)));
}

PanelGrid three_panels(const std::string& x_name, int columns) {
  PanelGrid grid;
  grid.columns = columns;
  grid.panels.assign(3, {"part", x_axis(x_name, {0, 10}), y_axis("Loss", {0, 1})});
  return grid;
}

TEST(Panels, ShareAxesWhereTheyAreTheSame) {
  const TextMetrics fonts;
  const Style style = make_style(fonts);
  const PanelGrid grid = three_panels("Step", 2);
  Scene scene = make_scene(style, 240, 200);
  const std::vector<Axes> axes = add_panels(scene, style, grid);
  ASSERT_EQ(axes.size(), 3U);
  EXPECT_EQ(axes[0].plot.x, axes[2].plot.x);
  EXPECT_EQ(axes[0].plot.y, axes[1].plot.y);
  EXPECT_EQ(axes[0].plot.width, axes[1].plot.width);
  const auto count = [&](const std::string& text) {
    int found = 0;
    for (const Item& item : scene.items) {
      if (const Text* one = std::get_if<Text>(&item)) found += one->text == text ? 1 : 0;
    }
    return found;
  };
  EXPECT_EQ(count("Loss"), 2);  // once a row
  EXPECT_EQ(count("Step"), 2);  // once a column: under the second panel, which has none below it
  EXPECT_EQ(count("c"), 1);
  EXPECT_THAT(scene_problems(scene), IsEmpty());
  // The natural height leaves the plots their aspect.
  Scene natural = make_scene(style, 240, panels_natural_height(style, grid, 240));
  const Rect plot = add_panels(natural, style, grid).front().plot;
  EXPECT_NEAR(plot.width / plot.height, grid.aspect, 0.05);
}

TEST(Panels, StandBesideEachOtherInALowFigure) {
  const TextMetrics fonts;
  const Style style = make_style(fonts);
  PanelGrid grid;
  grid.least_width = 150.0;
  for (const char* name : {"cos(anchor, k)", "Across", "Rank"})
    grid.panels.push_back({name, x_axis(name, {0, 10}), y_axis(name, {0, 1})});
  const auto columns = [&](double height) {
    Scene scene = make_scene(style, 240, height);
    const std::vector<Axes> axes = add_panels(scene, style, grid);
    EXPECT_THAT(scene_problems(scene), IsEmpty()) << height;
    for (const Item& item : scene.items) {
      const Text* text = std::get_if<Text>(&item);
      EXPECT_FALSE(grid.columns == 0 && text != nullptr && text->turned &&
                   text->text.ends_with("…"))
          << height;
    }
    int first_row = 0;
    for (const Axes& one : axes) first_row += one.plot.y == axes[0].plot.y ? 1 : 0;
    return first_row;
  };
  EXPECT_EQ(columns(panels_natural_height(style, grid, 240)), 1);
  EXPECT_EQ(columns(300), 1);
  EXPECT_EQ(columns(185), 2);
  EXPECT_EQ(columns(100), 3);
  grid.columns = 1;  // asked for, to have them above each other
  EXPECT_EQ(columns(185), 1);
}

TEST(Panels, ANameThatNarrowNeighboursShareStandsOnceUnderAll) {
  const TextMetrics fonts;
  const Style style = make_style(fonts);
  PanelGrid grid = three_panels("Budget N (entries)", 3);
  const auto names = [&](double width) {
    Scene scene = make_scene(style, width, 150);
    add_panels(scene, style, grid);
    EXPECT_THAT(scene_problems(scene), IsEmpty()) << width;
    std::vector<std::string> found;
    for (const Item& item : scene.items) {
      const Text* text = std::get_if<Text>(&item);
      if (text != nullptr && text->text.starts_with("Budget")) found.push_back(text->text);
    }
    return found;
  };
  EXPECT_THAT(names(400), testing::ElementsAre("Budget N (entries)", "Budget N (entries)",
                                               "Budget N (entries)"));
  EXPECT_THAT(names(200), testing::ElementsAre("Budget N (entries)"));
  grid.panels[1].x = x_axis("Rank of the whole", {0, 10});  // each has its own
  EXPECT_EQ(names(200).size(), 2U);
}

TEST(Panels, NamesThatDoNotFitAreTurnedAndLabelsKeepApart) {
  const TextMetrics fonts;
  const Style style = make_style(fonts);
  Scene scene = make_scene(style, 120, 150);
  const Axis names = name_axis({"keydiff+recent(10%)", "h2o+fastcaote", "snapkv"});
  const std::vector<Axes> axes =
      add_panels(scene, style, {.panels = {{"", names, y_axis("Loss", {0, 1})}}});
  int turned = 0;
  for (const Item& item : scene.items) {
    if (const Text* text = std::get_if<Text>(&item)) turned += text->turned ? 1 : 0;
  }
  EXPECT_EQ(turned, 4);  // three names and the axis' own
  std::vector<SeriesLabel> labels;
  for (int i = 0; i < 5; ++i) labels.push_back({"same", 60.0, series_look(style, i)});
  add_series_labels(scene, style, 70, 50, axes[0].plot.y, axes[0].plot.bottom(), labels);
  EXPECT_THAT(scene_problems(scene), IsEmpty());
}

TEST(Panels, NamesThatBeginAlikeAreCutWhereTheyStayApart) {
  const TextMetrics fonts;
  const Style style = make_style(fonts);
  Scene scene = make_scene(style, 200, 150);
  Panel panel{"", x_axis("Rank", {0, 1}),
              name_axis({"a-policy-with-a-long-name(window=16,pool=5)",
                         "a-policy-with-a-long-name(window=16,pool=7)",
                         "another-policy-with-a-long-name(window=16)", "short"})};
  add_panels(scene, style, {.panels = {panel}});
  std::set<std::string> texts;
  for (const Item& item : scene.items) {
    if (const Text* text = std::get_if<Text>(&item)) texts.insert(text->text);
  }
  int variants = 0;
  for (const std::string& text : texts) {
    EXPECT_LE(fonts.width(text, Font::regular, style.small), 92.0) << text;
    const bool variant = text.ends_with("pool=5)") || text.ends_with("pool=7)");
    if (!variant) continue;
    ++variants;
    EXPECT_THAT(text, testing::StartsWith("a-pol"));
  }
  EXPECT_EQ(variants, 2);
  EXPECT_EQ(texts.count("short"), 1U);
  // The only one of its beginning: its end is not needed.
  EXPECT_TRUE(std::any_of(texts.begin(), texts.end(), [](const std::string& text) {
    return text.starts_with("another-") && text.ends_with("…");
  }));
}

TEST(LinePlot, BreaksWhereThereIsNoNumberAndClipsWhatIsOutside) {
  const TextMetrics fonts;
  const Style style = make_style(fonts);
  const double nan = std::numeric_limits<double>::quiet_NaN();
  Scene scene = make_scene(style, 100, 100);
  const Axes axes{{10, 10, 80, 80}, x_axis("", {0, 4}), y_axis("", {0, 1})};
  const std::vector<Point> data{{0, 0.1}, {1, 0.2}, {2, nan}, {3, 0.4}, {4, 0.5}};
  add_line(scene, axes, data, series_look(style, 0));
  ASSERT_EQ(scene.items.size(), 1U);
  const Path& path = std::get<Path>(scene.items.front());
  EXPECT_THAT(path.verbs,
              ElementsAre(PathVerb::move, PathVerb::line, PathVerb::move, PathVerb::line));
  EXPECT_EQ(path.points[0], axes.to_page(0, 0.1));
  add_line(scene, axes, std::vector<Point>{{0, 0.1}, {1, 2.0}}, series_look(style, 1));
  EXPECT_EQ(scene.items.size(), 4U);  // clip, line, end of the clip
  EXPECT_THAT(scene_problems(scene), IsEmpty());
}

}  // namespace
}  // namespace kvloupe::figure
