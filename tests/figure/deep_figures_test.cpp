// Figures of a model with thirty layers: what lies along x, what is said once, what has a colour of
// its own.

#include "analysis/replay/measure/measure_catalog.h"
#include "app/document/figure_file.h"
#include "app/figure/figures/line_panels.h"
#include "app/plot/series.h"
#include "app/plot/value_axis.h"
#include "tests/figure/made_figures.h"
#include "tests/figure/text_dump.h"
#include "tests/figure/texts_on_data.h"
#include "tests/support/kinds_trace.h"
#include "tests/support/model_attribute.h"
#include "tests/support/test.h"

namespace kvloupe::figure {
namespace {

constexpr int kLayers = 30;

struct DeepFiguresTest : ::testing::Test {
  static void SetUpTestSuite() {
    test::SyntheticTraceOptions options{.layers = kLayers,
                                        .query_heads = 9,
                                        .heads = 3,
                                        .head_dim = 8,
                                        .hidden_size = 16,
                                        .prompt_length = 60,
                                        .generated = 4,
                                        .block = 12};
    folder = std::make_unique<test::TemporaryFolder>();
    trace = test::open_synthetic_trace(*folder / "deep.h5", options);
  }
  static void TearDownTestSuite() {
    trace.reset();
    folder.reset();
  }

  MadeFigure make(const std::string& name, const Choices& choices = {}) const {
    request::FigureSettings settings{.policy = parse_policy("h2o"), .choices = choices};
    return request::FigureMaker(trace).make(find_figure(name), settings, test::unwatched);
  }
  Scene page(const std::string& name, const MadeFigure& made, double millimetres) const {
    return test::scene_of(name, made, {.width = millimetres * kPointsPerMillimetre});
  }
  static std::vector<std::string> texts(const Scene& scene) {
    std::vector<std::string> all;
    for (const Text& text : test::items_of<Text>(scene)) all.push_back(text.text);
    return all;
  }
  static std::string setting(const MadeFigure& made, const std::string& name) {
    for (const auto& [key, value] : made.settings) {
      if (key == name) return value;
    }
    return "not said";
  }

  static inline std::unique_ptr<test::TemporaryFolder> folder;
  static inline std::shared_ptr<const Trace> trace;
};

TEST_F(DeepFiguresTest, ManyLayersLieAlongXAndCosinesFollowTheData) {
  for (const char* name : {"mean-key-query", "distinct-keys-query"}) {
    const MadeFigure made = make(name);
    const Scene scene = page(name, made, 85.0);
    EXPECT_LT(scene.height, scene.width);
    const Axes& axes = scene.axes.front();
    EXPECT_EQ(axes.x.meaning, AxisMeaning::layer);
    EXPECT_EQ(axes.x.last, kLayers);
    EXPECT_GT(axes.y.first, axes.y.last) << "values grow upwards";
    EXPECT_GE(axes.y.first, 0.0);
    EXPECT_LE(axes.y.last, 0.0);
    EXPECT_LT(axes.y.first - axes.y.last, 2.0) << "no room for cosines that are not there";
    std::size_t marks = 0;
    for (const Markers& markers : test::items_of<Markers>(scene)) {
      for (const Point at : markers.points) marks += axes.plot.contains(at) ? 1 : 0;
    }
    EXPECT_EQ(marks, static_cast<std::size_t>(kLayers * 9) *
                         (std::string(name) == "mean-key-query" ? 1 : 2));
    EXPECT_THAT(made.figure->caption(), HasSubstr("one column per layer"));
    // The pointer still finds a head's mark, and its layer below.
    ASSERT_FALSE(scene.regions.empty());
    for (const PickRegion& region : scene.regions) {
      EXPECT_EQ(static_cast<int>(axes.to_data(region.rect.centre()).x), region.target.layer);
    }
  }
}

TEST_F(DeepFiguresTest, NumbersOfLayersAreNotTurned) {
  for (const char* name : {"perturbation-layers", "output-error-layers", "compression-layers"}) {
    const Scene scene = page(name, make(name), 85.0);
    int numbers = 0;
    for (const Text& text : test::items_of<Text>(scene)) {
      if (text.text.find_first_not_of("0123456789") != std::string::npos) continue;
      EXPECT_FALSE(text.turned) << text.text << " of " << name;
      ++numbers;
    }
    EXPECT_GT(numbers, 5);
  }
}

TEST_F(DeepFiguresTest, CurvesOverLayersChooseTheirScale) {
  for (const char* name : {"perturbation-layers", "output-error-layers"}) {
    for (const auto& [scale, wanted] :
         {std::pair{"linear", AxisScale::linear}, std::pair{"log", AxisScale::log}}) {
      const MadeFigure made = make(name, {{"scale", scale}});
      EXPECT_EQ(page(name, made, 85.0).axes.front().y.scale, wanted) << name;
      const auto says_so = HasSubstr("Logarithmic axis");
      if (wanted == AxisScale::log) {
        EXPECT_THAT(made.figure->caption(), says_so);
      } else {
        EXPECT_THAT(made.figure->caption(), Not(says_so));
      }
    }
  }
}

TEST(CurveAxis, IsLogarithmicByItselfWhereValuesSpanDecades) {
  const auto axis = [](std::vector<double> values, const std::string& scale) {
    LinePanels::Panel panel;
    LinePanels::Line line;
    for (std::size_t i = 0; i < values.size(); ++i)
      line.points.push_back({static_cast<double>(i), values[i]});
    panel.lines.push_back(std::move(line));
    panel.y = curve_axis("y", panel, scale);
    return std::pair{panel.y, curve_scale_words(panel)};
  };
  EXPECT_EQ(axis({0.1, 2.9}, "auto").first.scale, AxisScale::linear);
  EXPECT_EQ(axis({0.1, 2.9}, "auto").second, "");
  EXPECT_EQ(axis({0.1, 3.1}, "auto").first.scale, AxisScale::log);
  EXPECT_EQ(axis({0.0, 0.1, 3.1}, "auto").first.scale, AxisScale::linear) << "0 has no place";
  EXPECT_EQ(axis({0.1, 3.1}, "linear").first.scale, AxisScale::linear);
  const auto [log, words] = axis({0.0, 0.1, 3.1}, "log");
  EXPECT_EQ(log.scale, AxisScale::log);
  EXPECT_GT(log.last, 0.0);
  EXPECT_LE(log.last, 0.1);
  EXPECT_EQ(words, " Logarithmic axis; zeros are left out.");
  EXPECT_EQ(axis({0.0, 0.0}, "log").first.scale, AxisScale::linear) << "nothing to draw on it";
  EXPECT_EQ(axis({}, "auto").first.scale, AxisScale::linear);
}

TEST(CosinesAndZero, HasRoomForBothAndNoMore) {
  const ValueRange low = cosines_and_zero({-0.6, -0.2});
  EXPECT_NEAR(low.low, -0.63, 1e-9);
  EXPECT_NEAR(low.high, 0.03, 1e-9);
  EXPECT_EQ(cosines_and_zero({-1.0, 1.0}).low, -1.0);
  EXPECT_EQ(cosines_and_zero({-1.0, 1.0}).high, 1.0);
  EXPECT_EQ(cosines_and_zero({}).low, -1.0);
}

TEST_F(DeepFiguresTest, DotsOfFollowedTokensHaveALegend) {
  for (const double width : {85.0, 170.0}) {
    EXPECT_THAT(texts(page("overview", make("overview", {{"measure", "followed"}, {"tokens", "0"}}),
                           width)),
                Contains("attention read"));
    EXPECT_THAT(texts(page("overview", make("overview"), width)), Not(Contains("attention read")));
    EXPECT_THAT(texts(page("follow", make("follow", {{"tokens", "0"}}), width)),
                Contains("attention read"));
  }
}

TEST_F(DeepFiguresTest, ALimitIsAChoiceAndPromisesNothing) {
  const Choices choices{{"limit", "9"}, {"budgets", "20%,50%"}, {"policies", "h2o,sink"}};
  const MadeFigure made = make("budget-curve", choices);
  std::string all;
  for (const std::string& text : texts(page("budget-curve", made, 170.0))) all += text + " ";
  EXPECT_THAT(all, HasSubstr("from here on at most\u00A09, of the budgets tested"));
  EXPECT_THAT(all, HasSubstr("sink, at most\u00A09 from\u00A012\u00A0on"));
  EXPECT_THAT(all, Not(HasSubstr("safe")));
  EXPECT_THAT(made.figure->caption(), HasSubstr("Budgets between those drawn were not tested. The "
                                                "limit is a choice: nobody has measured"));
}

TEST_F(DeepFiguresTest, TheBudgetInATitleIsWholeOrInTheCaptionAlone) {
  const MadeFigure made = make(
      "budget-curve", {{"limit", "9"}, {"budgets", "20%,50%"}, {"policies", "h2o,sink,keydiff"}});
  EXPECT_THAT(made.figure->caption(), HasSubstr("within the limit from N = 12 on"));
  for (const double width : {60.0, 85.0, 110.0, 178.0}) {
    DrawRequest request{.style = make_style(test::fonts()),
                        .width = width * kPointsPerMillimetre,
                        .height = 70.0 * kPointsPerMillimetre};
    std::string all;
    for (const std::string& text : texts(made.figure->draw(request))) all += text + "|";
    EXPECT_THAT(all, HasSubstr("sink")) << width;
    for (const char* cut : {"at most…", "at most\u00A09…", "from…", "12…"})
      EXPECT_THAT(all, Not(HasSubstr(cut))) << width;
    const bool wide = width >= 85.0;
    EXPECT_EQ(all.find("from\u00A012\u00A0on") != std::string::npos, wide) << all;
  }
}

TEST_F(DeepFiguresTest, TitlesThatAreCutTellPoliciesApart) {
  const MadeFigure made =
      make("budget-curve", {{"policies", "h2o+recent(20%),h2o+recent(30%)"}, {"budgets", "50%"}});
  const std::vector<std::string> all = texts(page("budget-curve", made, 60.0));
  EXPECT_THAT(all, Contains(HasSubstr("20%")));
  EXPECT_THAT(all, Contains(HasSubstr("30%")));
}

TEST_F(DeepFiguresTest, PoliciesHaveTheirNamesInTheLegendOfKeys) {
  const MadeFigure made = make("pca-panel", {{"policies", "h2o+recent(20%)+sinks(2),tova"}});
  const std::vector<std::string> all = texts(page("pca-panel", made, 178.0));
  EXPECT_THAT(all, Contains("retained by h2o+recent(20%)+sinks(2)"));
  EXPECT_THAT(all, Contains("tova"));
}

TEST_F(DeepFiguresTest, FiguresOfAColumnLeaveRoomForOthers) {
  for (const char* name : {"roles", "sinks", "survival"})
    EXPECT_LT(page(name, make(name), 85.0).height, 150.0 * kPointsPerMillimetre) << name;
}

TEST_F(DeepFiguresTest, LostRangesBesideLoopsAreThoseOfTheMeasure) {
  const MadeFigure made = make("loops", {{"over", "1"}});
  EXPECT_THAT(made.figure->caption(), HasSubstr("The text has no loop."));
  ReplayRequest request{
      .policy = parse_policy("h2o"),
      .budget = parse_budget(setting(made, "budget")).resolve(trace->run().prompt_length),
      .measures = {"lost_value_range"}};
  const Replay replayed = replay(*trace, request, test::unwatched);
  int compared = 0;
  std::map<int, std::pair<double, int>> sums;  // by token
  std::map<int, double> means;
  for (const test::CsvRow& row : test::csv_rows(*made.figure)) {
    const int token = std::stoi(row.at("token"));
    if (row.at("layer").empty()) {
      means[token] = std::stod(row.at("lost_value_range"));
      continue;
    }
    const HeadReplay* head = replayed.find(std::stoi(row.at("layer")), std::stoi(row.at("head")));
    for (std::size_t step = 0; step < replayed.blocks.size(); ++step) {
      if (replayed.blocks[step].first != token) continue;
      ++compared;
      const double wanted = measure_at(require_measure("lost_value_range"), head->steps[step]);
      EXPECT_NEAR(std::stod(row.at("lost_value_range")), wanted, 1e-4);
      sums[token].first += wanted;
      ++sums[token].second;
    }
  }
  EXPECT_EQ(compared, kLayers * 3 * 4) << "each head loses an entry at each of four tokens";
  ASSERT_EQ(means.size(), sums.size());
  for (const auto& [token, sum] : sums)
    EXPECT_NEAR(means.at(token), sum.first / sum.second, 1e-4) << token;

  // As a mean over the last three tokens; here all heads lose an entry at each token.
  const MadeFigure smooth = make("loops", {{"over", "3"}});
  EXPECT_THAT(smooth.figure->caption(), HasSubstr("mean over the last 3 tokens"));
  for (const test::CsvRow& row : test::csv_rows(*smooth.figure)) {
    if (!row.at("layer").empty()) continue;
    const int token = std::stoi(row.at("token"));
    double sum = 0.0;
    int count = 0;
    for (int before = std::max(60, token - 2); before <= token; ++before, ++count)
      sum += means.at(before);
    EXPECT_NEAR(std::stod(row.at("lost_value_range")), sum / count, 1e-4) << token;
  }
}

TEST_F(DeepFiguresTest, LoopsStandOverTheTokensThatTheyTake) {
  test::SyntheticTraceOptions options{.prompt_length = 60, .generated = 60};
  const auto file = *folder / "looping.h5";
  test::write_synthetic_trace(file, options);
  test::make_loop(file, 80, 7);
  request::FigureSettings settings{.policy = parse_policy("sink")};
  const FigureInfo& info = find_figure("loops");
  const auto looping = std::make_shared<const Trace>(file);
  const MadeFigure made = request::FigureMaker(looping).make(info, settings, test::unwatched);
  std::vector<std::string> loops;
  for (const test::CsvRow& row : test::csv_rows(*made.figure)) {
    if (row.at("loop_first").empty()) continue;
    loops.push_back(row.at("loop_first") + " " + row.at("loop_length") + " " +
                    row.at("loop_tokens"));
  }
  EXPECT_EQ(loops, std::vector<std::string>{"80 7 40"});
  EXPECT_THAT(made.figure->caption(), HasSubstr("take 67 % of the text"));
  EXPECT_THAT(made.figure->caption(), HasSubstr("begins at token 80, with \"w80é w81"));
  for (const double millimetres : {85.0, 178.0}) {
    const Scene scene = page("loops", made, millimetres);
    EXPECT_THAT(texts(scene), Contains(HasSubstr("5 times")));
    const Axes& axes = scene.axes.front();
    int bars = 0;
    for (const Path& path : test::items_of<Path>(scene)) {
      if (path.points.empty() || path.points.front().y >= axes.plot.y) continue;
      if (!path.fill || path.stroke) continue;
      const auto [left, right] =
          std::minmax_element(path.points.begin(), path.points.end(),
                              [](const Point& a, const Point& b) { return a.x < b.x; });
      ++bars;
      EXPECT_NEAR(axes.to_data({left->x, axes.plot.y}).x, 80.0, 1e-6);
      EXPECT_NEAR(axes.to_data({right->x, axes.plot.y}).x, 120.0, 1e-6);
    }
    EXPECT_EQ(bars, 1) << millimetres;
  }
}

TEST_F(DeepFiguresTest, TitlesOfPoliciesAreWholeInAColumn) {
  const Scene scene = page("head-budgets", make("head-budgets"), 85.0);
  EXPECT_THAT(cut_texts(scene), IsEmpty());
  EXPECT_THAT(texts(scene), Contains("+pyramid"));
}

TEST_F(DeepFiguresTest, EachPolicyHasAColourOfItsOwnAmongKeys) {
  const Choices choices{{"policies", "h2o,sink,keydiff"}};
  const Scene scene = page("pca-panel", make("pca-panel", choices), 170.0);
  const Style style = make_style(test::fonts());
  ASSERT_EQ(scene.axes.size(), 4U);
  std::vector<std::set<std::tuple<int, int, int>>> colours(4);
  for (const Markers& markers : test::items_of<Markers>(scene)) {
    if (markers.shape == MarkerShape::star) continue;
    const Colour c = markers.stroke ? markers.stroke->colour : *markers.fill;
    for (std::size_t a = 0; a < 4; ++a) {
      if (scene.axes[a].plot.contains(markers.points.front()))
        colours[a].insert({c.red, c.green, c.blue});
    }
  }
  const auto look = [&](int place) {
    const Colour c = series_look(style, place).colour;
    return std::tuple<int, int, int>{c.red, c.green, c.blue};
  };
  const Colour grey = style.colours.faint;
  for (int p = 0; p < 3; ++p) {
    EXPECT_EQ(colours[p],
              (std::set<std::tuple<int, int, int>>{look(p), {grey.red, grey.green, grey.blue}}));
  }
  EXPECT_EQ(colours[3], (std::set<std::tuple<int, int, int>>{look(0), look(1), look(2)}));
}

TEST_F(DeepFiguresTest, NothingIsSaidOfWhatIsNotDrawn) {
  const MadeFigure sets = make("compression-layers");
  EXPECT_EQ(setting(sets, "policies"), "not said");
  EXPECT_EQ(setting(sets, "budget"), "not said");
  EXPECT_EQ(setting(sets, "threshold"), "0.75");
  const MadeFigure replayed = make("compression-layers", {{"of", "replay"}});
  EXPECT_EQ(setting(replayed, "policies"), "h2o+kvmerger");
  EXPECT_EQ(setting(replayed, "budget"), "15");
  EXPECT_EQ(setting(replayed, "threshold"), "not said");
  EXPECT_EQ(setting(make("roles"), "budget"), "not said");
}

TEST(Counts, OneIsNotMany) {
  EXPECT_EQ(format_counted(1, "token"), "1 token");
  EXPECT_EQ(format_counted(0, "token"), "0 tokens");
  EXPECT_EQ(format_counted(1924, "token"), format_count(1924) + " tokens");
  EXPECT_EQ(format_tokens(1924, 1924), "token " + format_count(1924));
  EXPECT_EQ(format_tokens(0, 3), "tokens 0 to 3");
}

// Every figure of the catalogue on a trace whose layers differ: at each layer it draws or says why
// not.

TEST(KindsFigures, EveryFigureDrawsAtEveryLayerOrSaysWhyNot) {
  const test::TemporaryFolder folder;
  test::write_kinds_trace(folder / "kinds.h5", test::made_layers());
  const auto trace = std::make_shared<const Trace>(folder / "kinds.h5");
  request::FigureSettings settings{.policy = parse_policy("h2o+recent(20%)"),
                                   .policy_b = parse_policy("keydiff"),
                                   .budget = parse_budget("12")};
  int drawn = 0, refused = 0;
  for (const FigureInfo& info : figure_catalog()) {
    if (info.needs.evaluation || info.needs.both_loops) continue;
    for (int layer = 0; layer < trace->model().num_layers; ++layer) {
      SCOPED_TRACE(info.name + ", layer " + std::to_string(layer));
      settings.layer = layer;
      settings.head = trace->attends(layer) ? trace->layer_model(layer).num_kv_heads - 1 : 0;
      MadeFigure made;
      try {
        made = request::FigureMaker(trace).make(info, settings, test::unwatched);
      } catch (const std::runtime_error& problem) {  // UsageError and WorkError: a line
        EXPECT_GT(std::string(problem.what()).size(), 25U) << problem.what();
        if (!trace->attends(layer)) {
          EXPECT_THAT(problem.what(), HasSubstr("nearest"));
        }
        ++refused;
        continue;
      }
      ++drawn;
      EXPECT_THAT(scene_problems(page_of(info, made, {}, test::fonts())), IsEmpty());
      EXPECT_GT(file_of(info, made, FileFormat::csv, {}, test::fonts()).size(), 40U);
      EXPECT_EQ(made.figure->caption().find(" nan"), std::string::npos) << made.figure->caption();
      for (const int token : {0, 40, test::kKindsTokens - 1}) {
        made.figure->value_text({token, 40, 2, layer, 0});
      }
    }
  }
  EXPECT_GT(drawn, 120);
  RecordProperty("refused", refused);
}

}  // namespace
}  // namespace kvloupe::figure
