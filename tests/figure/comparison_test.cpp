// The parts of comparisons: typed lists, panels that share their axes, numbers behind box plots.

#include "app/figure/comparison.h"
#include "analysis/replay/measure/measure_catalog.h"
#include "app/document/figure_file.h"
#include "app/plot/marks.h"
#include "app/plot/panels.h"
#include "app/plot/value_axis.h"
#include "app/scene/colour_map.h"
#include "tests/figure/made_figures.h"
#include "tests/figure/text_dump.h"
#include "tests/support/record_values.h"
#include "tests/support/test.h"

namespace kvloupe::figure {
namespace {

using Row = test::CsvRow;

std::string refusal(const ChoiceInfo& choice, const std::string& text) {
  return test::error_of<UsageError>([&] { check_value("some-figure", choice, text); });
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
  const auto trace = test::open_synthetic_trace(folder / "trace.h5");
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
        const StepRecord& own = replays[i]->heads[h].steps.at(step);
        const StepRecord& full = whole.heads[h].steps.at(step);
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
  PanelGrid grid{.columns = columns};
  grid.panels.assign(3, {"part", x_axis(x_name, {0, 10}), y_axis("Loss", {0, 1})});
  return grid;
}

TEST(Panels, ShareAxesWhereTheyAreTheSame) {
  const Style style = make_style(test::fonts());
  const PanelGrid grid = three_panels("Step", 2);
  Scene scene = make_scene(style, 240, 200);
  const std::vector<Axes> axes = add_panels(scene, style, grid);
  ASSERT_EQ(axes.size(), 3U);
  EXPECT_EQ(axes[0].plot.x, axes[2].plot.x);
  EXPECT_EQ(axes[0].plot.y, axes[1].plot.y);
  EXPECT_EQ(axes[0].plot.width, axes[1].plot.width);
  const auto count = [&](const std::string& text) {
    int found = 0;
    for (const Text& one : test::items_of<Text>(scene)) found += one.text == text ? 1 : 0;
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
  const Style style = make_style(test::fonts());
  PanelGrid grid{.least_width = 150.0};
  for (const char* name : {"cos(anchor, k)", "Across", "Rank"})
    grid.panels.push_back({name, x_axis(name, {0, 10}), y_axis(name, {0, 1})});
  const auto columns = [&](double height) {
    Scene scene = make_scene(style, 240, height);
    const std::vector<Axes> axes = add_panels(scene, style, grid);
    EXPECT_THAT(scene_problems(scene), IsEmpty()) << height;
    for (const Text& text : test::items_of<Text>(scene)) {
      EXPECT_FALSE(grid.columns == 0 && text.turned && text.text.ends_with("…")) << height;
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
  const Style style = make_style(test::fonts());
  PanelGrid grid = three_panels("Budget N (entries)", 3);
  const auto names = [&](double width) {
    Scene scene = make_scene(style, width, 150);
    add_panels(scene, style, grid);
    EXPECT_THAT(scene_problems(scene), IsEmpty()) << width;
    std::vector<std::string> found;
    for (const Text& text : test::items_of<Text>(scene)) {
      if (text.text.starts_with("Budget")) found.push_back(text.text);
    }
    return found;
  };
  EXPECT_THAT(names(400),
              ElementsAre("Budget N (entries)", "Budget N (entries)", "Budget N (entries)"));
  EXPECT_THAT(names(200), ElementsAre("Budget N (entries)"));
  grid.panels[1].x = x_axis("Rank of the whole", {0, 10});  // each has its own
  EXPECT_EQ(names(200).size(), 2U);
}

TEST(Panels, NamesThatDoNotFitAreTurnedAndLabelsKeepApart) {
  const Style style = make_style(test::fonts());
  Scene scene = make_scene(style, 120, 150);
  const Axis names = name_axis({"keydiff+recent(10%)", "h2o+fastcaote", "snapkv"});
  const std::vector<Axes> axes =
      add_panels(scene, style, {.panels = {{"", names, y_axis("Loss", {0, 1})}}});
  int turned = 0;
  for (const Text& text : test::items_of<Text>(scene)) turned += text.turned ? 1 : 0;
  EXPECT_EQ(turned, 4);  // three names and the axis' own
  std::vector<SeriesLabel> labels;
  for (int i = 0; i < 5; ++i) labels.push_back({"same", 60.0, series_look(style, i)});
  add_series_labels(scene, style, 70, 50, axes[0].plot.y, axes[0].plot.bottom(), labels);
  EXPECT_THAT(scene_problems(scene), IsEmpty());
}

TEST(Panels, NamesThatBeginAlikeAreCutWhereTheyStayApart) {
  const Style style = make_style(test::fonts());
  Scene scene = make_scene(style, 200, 150);
  Panel panel{"", x_axis("Rank", {0, 1}),
              name_axis({"a-policy-with-a-long-name(window=16,pool=5)",
                         "a-policy-with-a-long-name(window=16,pool=7)",
                         "another-policy-with-a-long-name(window=16)", "short"})};
  add_panels(scene, style, {.panels = {panel}});
  std::set<std::string> texts;
  for (const Text& text : test::items_of<Text>(scene)) texts.insert(text.text);
  int variants = 0;
  for (const std::string& text : texts) {
    EXPECT_LE(test::fonts().width(text, Font::regular, style.small), 92.0) << text;
    const bool variant = text.ends_with("pool=5)") || text.ends_with("pool=7)");
    if (!variant) continue;
    ++variants;
    EXPECT_THAT(text, StartsWith("a-pol"));
  }
  EXPECT_EQ(variants, 2);
  EXPECT_EQ(texts.count("short"), 1U);
  // The only one of its beginning: its end is not needed.
  EXPECT_TRUE(std::any_of(texts.begin(), texts.end(), [](const std::string& text) {
    return text.starts_with("another-") && text.ends_with("…");
  }));
}

TEST(LinePlot, BreaksWhereThereIsNoNumberAndClipsWhatIsOutside) {
  const Style style = make_style(test::fonts());
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

// The words of captions and CSV about a comparison: which policies can know the question, when the
// prompt is compressed, which entries the budget counts.

struct ComparisonCaptions : ::testing::Test, test::TraceFigures {};

TEST_F(ComparisonCaptions, CaptionsSayWhatAComparisonHasToKnow) {
  request::FigureSettings settings;
  settings.choices["policies"] = "keydiff,h2o,snapkv+adakv";
  const std::string regular = make("agreement", settings).figure->caption();
  EXPECT_THAT(regular, HasSubstr("Query-aware: h2o, snapkv+adakv; query-agnostic: keydiff."));
  EXPECT_THAT(regular, HasSubstr("compressed while it is read"));
  EXPECT_THAT(regular, HasSubstr("for snapkv+adakv it is the mean over the heads of a layer."));
  settings.compression = Compression::context_only;
  settings.block = kWholePrompt;
  const std::string context = make("agreement", settings).figure->caption();
  EXPECT_THAT(context, HasSubstr("All 3 policies: query-agnostic. The context is compressed once"));
  // One policy is not a comparison; a list of blocks does not have one answer.
  EXPECT_THAT(make("filmstrip", {}).figure->caption(), Not(HasSubstr("uery-")));
  const std::string blocks = make("block-size", {}).figure->caption();
  EXPECT_THAT(blocks, HasSubstr("Query-aware: "));
  EXPECT_THAT(blocks, Not(HasSubstr("compressed while")));
  request::FigureSettings two{.policy_b = parse_policy("h2o")};
  EXPECT_THAT(make("pca", two).figure->caption(), HasSubstr("Query-aware: h2o"));
  EXPECT_THAT(make("filmstrip", two).figure->caption(), Not(HasSubstr("h2o")));
  // The same bytes are more entries of few bits.
  two.budget = parse_budget("25%bytes");
  two.policy_b = parse_policy("keydiff+quant(4,residual=1)");
  EXPECT_THAT(make("pca", two).figure->caption(),
              HasSubstr(" 25%bytes: 24 entries under keydiff, 71"));
  // In the CSV as a comment; in the picture's caption once.
  const FigureInfo& info = find_figure("agreement");
  const MadeFigure made = make("agreement", settings);
  EXPECT_THAT(file_of(info, made, FileFormat::csv, {}, test::fonts()),
              HasSubstr("# comparison: All 3 policies: query-agnostic."));
  FileOptions with_caption{.caption = true};
  std::string spoken;
  for (const Text& text : test::items_of<Text>(page_of(info, made, with_caption, test::fonts())))
    spoken += text.text + " ";
  const std::size_t first = spoken.find("query-agnostic");
  EXPECT_NE(first, std::string::npos);
  EXPECT_EQ(spoken.find("query-agnostic", first + 1), std::string::npos);
}

// The numbers of the figures that compare, read from their CSV, beside plain counts over replays.

struct ComparisonFigures : ::testing::Test, test::TraceFigures {
  ComparisonFigures() : TraceFigures({.clusters = 4}) {}

  Replay replay_of_spec(const std::string& spec, int budget, bool metrics = false) {
    ReplayRequest request{.policy = parse_policy(spec), .budget = budget, .metrics = metrics};
    return replay(*trace, request, test::unwatched);
  }

  static std::set<int> kept(const Replay& replay, int layer, int head, int step) {
    std::set<int> tokens;
    const HeadReplay& one = head_of(replay, layer, head);
    for (int t = 0; t < replay.blocks[step].end; ++t) {
      const int left = one.evicted_at[t];
      if (left < 0 || left > step) tokens.insert(t);
    }
    return tokens;
  }
};

TEST_F(ComparisonFigures, HeadBudgetsAreWhatIsRetainedAndSumToTheBudget) {
  request::FigureSettings settings{.budget = parse_budget("24")};
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
  request::FigureSettings settings{
      .choices = {{"policies", "h2o+sinks(2),keydiff+recent(25%)+every(4),full"},
                  {"budgets", "20,40"},
                  {"measure", "layer-error"}}};
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
  trace = test::open_synthetic_trace(
      folder / "long.h5", {.layers = 1, .prompt_length = 64, .generated = 200, .block = 16});
  request::FigureSettings settings{.policy = parse_policy("h2o"), .budget = parse_budget("32")};
  const MadeFigure made = make("filmstrip", settings);
  const Axis y = test::scene_of("filmstrip", made).axes.front().y;
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
  trace = test::open_synthetic_trace(folder / "long.h5", options);
  request::FigureSettings settings{.policy_b = parse_policy("h2o"), .budget = parse_budget("25%")};
  const MadeFigure made = make("policy-diff", settings);
  std::map<std::string, double> share;
  const std::vector<Row> rows = test::csv_rows(*made.figure);
  for (const Row& row : rows) share[row.at("kept")] += 1.0 / static_cast<double>(rows.size());
  ASSERT_EQ(rows.size(), 4U * 1200U);
  ASSERT_GT(share["a_only"], 0.1);
  ASSERT_GT(share["b_only"], 0.1);
  for (const Theme theme : kThemes) {
    for (const double width : {120.0, 241.0}) {
      DrawRequest request{.style = make_style(test::fonts(), theme),
                          .width = width,
                          .height = 160.0,
                          .pixels_per_point = 96.0 / 72.0};
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
      for (const Text& text : test::items_of<Text>(scene)) texts += text.text + "|";
      if (width > 200.0) {
        EXPECT_THAT(texts, HasSubstr(fmt::format("A only {:.0f} %", 100.0 * share["a_only"])));
        EXPECT_THAT(texts, HasSubstr(fmt::format("neither {:.0f} %", 100.0 * share["neither"])));
      }
    }
  }
}

TEST_F(ComparisonFigures, AgreementIsJaccardsIndexAndHeadsAreSorted) {
  request::FigureSettings settings{.budget = parse_budget("24")};
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
  trace = test::open_synthetic_trace(folder / "bare.h5", options);
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
