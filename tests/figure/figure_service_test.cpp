// One service makes every figure: what is asked for twice is computed once, and what did not come
// to its end leaves nothing behind.

#include "analysis/base/text/table.h"
#include "app/scene/style.h"
#include "tests/figure/made_figures.h"
#include "tests/support/test.h"

namespace kvloupe::request {
namespace {

std::atomic<int> computed{0};
std::atomic<bool> hold{false};  // the figure waits, and looks whether it is cancelled
std::atomic<int> under_way{0};

struct Counted : figure::Figure {
  figure::Scene draw(const figure::DrawRequest&) const override { return {}; }
  void write_csv(figure::CsvWriter&) const override {}
  std::string caption() const override { return "counted"; }
};

figure::FigureInfo counted_figure() {
  figure::FigureInfo info;
  info.name = "counted";
  info.needs.head = true;
  info.needs.policy = true;
  info.unavailable = [](const Trace&) { return std::string(); };
  info.compute = [](const figure::FigureInput& input,
                    Progress& progress) -> std::unique_ptr<const figure::Figure> {
    EXPECT_NE(input.policy_a, nullptr);
    ++under_way;
    while (hold) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      if (progress.cancelled()) --under_way;
      progress.check();
    }
    --under_way;
    ++computed;
    return std::make_unique<Counted>();
  };
  return info;
}

/// The inputs of a test's figures, in their order.
struct Computed {
  std::set<int> layers;
  bool partial = false;
  std::shared_ptr<const figure::Figure> shown;
};
std::vector<Computed> made_of;

struct FigureServiceTest : ::testing::Test {
  void SetUp() override {
    computed = 0;
    under_way = 0;
    hold = false;
    inputs.traces = {test::open_synthetic_trace(folder / "t.h5")};
  }
  figure::MadeFigure make(const FigureSettings& settings = {}) {
    return service.make(info, make_request(info, settings, inputs), inputs, test::unwatched);
  }
  static void wait_for(int jobs) {
    while (under_way < jobs) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }

  test::TemporaryFolder folder;
  FigureInputs inputs;
  figure::FigureInfo info = counted_figure();
  FigureService service;
};

TEST_F(FigureServiceTest, WhatIsAskedForTwiceIsComputedOnce) {
  const figure::MadeFigure first = make();
  FigureSettings same;
  same.token = 5;  // which it does not read
  const figure::MadeFigure again = make(same);
  EXPECT_EQ(again.figure, first.figure);
  EXPECT_EQ(again.settings, first.settings);
  EXPECT_EQ(again.traces, first.traces);
  EXPECT_EQ(again.steps.size(), first.steps.size());
  EXPECT_EQ(computed, 1);
  FigureSettings other{.head = 1};
  EXPECT_NE(make(other).figure, first.figure);
  EXPECT_EQ(computed, 2);
}

TEST_F(FigureServiceTest, SettingsSayTheBlockOfTheReplayAndThatThePolicyStopsAtTheQuestion) {
  const int prompt = inputs.traces.front()->run().prompt_length;
  const auto said = [&](const FigureSettings& settings, const std::string& key) {
    for (const auto& [name, value] : make(settings).settings)
      if (name == key) return value;
    return std::string("nothing");
  };
  EXPECT_EQ(said({}, "block"), std::to_string(inputs.traces.front()->run().block_size));
  EXPECT_EQ(said({}, "compression"), "nothing");
  FigureSettings kvpress{.block = kWholePrompt, .compression = Compression::context_only};
  EXPECT_EQ(said(kvpress, "block"), std::to_string(prompt));
  EXPECT_EQ(said(kvpress, "compression"), "context-only");
}

TEST_F(FigureServiceTest, APolicyWithoutABudgetSaysTheShareItKeeps) {
  const auto said = [&](const std::string& policy, const std::string& key) {
    FigureSettings settings{.policy = parse_policy(policy)};
    for (const auto& [name, value] : make(settings).settings)
      if (name == key) return value;
    return std::string("nothing");
  };
  // 104 tokens in 2 layers of 2 heads; two heads keep 4 + 22 of them.
  EXPECT_EQ(said("duo(0.5,sinks=4,recent=22)", "kept"),
            "62.5 % of the entries (set by the policy's threshold)");
  EXPECT_EQ(said("duo(0.5,sinks=4,recent=22)", "budget"), "nothing");
  EXPECT_EQ(said("h2o", "kept"), "nothing");
  EXPECT_NE(said("h2o", "budget"), "nothing");
}

TEST_F(FigureServiceTest, WhoAsksAtOnceGetsTheSame) {
  hold = true;
  std::vector<figure::MadeFigure> got(3);
  {
    std::vector<std::jthread> threads;
    for (figure::MadeFigure& one : got) threads.emplace_back([&] { one = make(); });
    wait_for(1);
    hold = false;
  }
  EXPECT_EQ(computed, 1);
  for (const figure::MadeFigure& one : got) EXPECT_EQ(one.figure, got.front().figure);
}

TEST_F(FigureServiceTest, CancellingHalfWayLeavesNothingBehindAndHarmsNobodyElse) {
  hold = true;
  const FigureRequest request = make_request(info, {}, inputs);
  Progress cancelled;
  std::atomic<bool> stopped = false;
  figure::MadeFigure waited;
  {
    std::jthread first([&] {
      try {
        service.make(info, request, inputs, cancelled);
      } catch (const Cancelled&) {
        stopped = true;
      }
    });
    wait_for(1);
    std::jthread second([&] { waited = make(); });  // waits for the first
    cancelled.cancel();
    first.join();
    wait_for(1);  // the second has taken over
    hold = false;
  }
  EXPECT_TRUE(stopped);
  EXPECT_EQ(computed, 1);
  ASSERT_NE(waited.figure, nullptr);
  EXPECT_EQ(make().figure, waited.figure);
}

TEST_F(FigureServiceTest, WhoLooksOnGetsPartsTheLayerInHandFirst) {
  made_of.clear();
  info.needs.all_layers = true;
  info.compute = [](const figure::FigureInput& input,
                    Progress&) -> std::unique_ptr<const figure::Figure> {
    Computed& one = made_of.emplace_back();
    for (const HeadReplay& head : input.policy_a->heads) one.layers.insert(head.layer);
    one.partial = input.partial;
    one.shown = input.shown;
    return std::make_unique<Counted>();
  };
  const FigureRequest request = make_request(info, {}, inputs);
  const auto older = std::make_shared<const Counted>();
  std::vector<figure::MadeFigure> parts;
  Meanwhile meanwhile;
  meanwhile.on_part = [&](figure::MadeFigure part) { parts.push_back(std::move(part)); };
  meanwhile.shown = older;
  meanwhile.layer = 1;
  const figure::MadeFigure whole = service.make(info, request, inputs, test::unwatched, meanwhile);
  ASSERT_EQ(made_of.size(), parts.size() + 1);
  ASSERT_FALSE(parts.empty());
  EXPECT_EQ(made_of.front().layers, std::set<int>{1});
  for (std::size_t i = 0; i < parts.size(); ++i) {
    EXPECT_FALSE(parts[i].complete);
    EXPECT_TRUE(made_of[i].partial);
    EXPECT_EQ(made_of[i].shown, older);
  }
  EXPECT_TRUE(whole.complete);
  EXPECT_FALSE(made_of.back().partial);
  EXPECT_EQ(made_of.back().layers, (std::set<int>{0, 1}));
  EXPECT_EQ(service.make(info, request, inputs, test::unwatched, meanwhile).figure, whole.figure)
      << "no part is taken for the whole";
}

/// The rows of a figure's CSV that have all their values.
std::set<std::string> known_rows(const figure::Figure& figure) {
  std::ostringstream text;
  figure::CsvWriter csv(text);
  own_figure(figure).write_csv(csv);
  std::istringstream lines(text.str());
  std::set<std::string> rows;
  for (std::string line; std::getline(lines, line);) {
    if (!line.ends_with(',')) rows.insert(line);
  }
  return rows;
}

class ComparisonParts : public FigureServiceTest,
                        public ::testing::WithParamInterface<const char*> {};

TEST_P(ComparisonParts, TheReplaysSoFarAreShownInAnEmptyTileAlone) {
  const figure::FigureInfo& comparison = figure::find_figure(GetParam());
  const FigureRequest request = make_request(comparison, {}, inputs);
  const auto make_with = [&](std::shared_ptr<const figure::Figure> shown,
                             std::vector<std::set<std::string>>& parts) {
    FigureService eager(std::make_shared<figure::ReplayService>(figure::ReplayService::kMostBytes,
                                                                std::chrono::milliseconds(0)));
    Meanwhile meanwhile;
    meanwhile.shown = std::move(shown);
    meanwhile.on_part = [&](const figure::MadeFigure& part) {
      EXPECT_FALSE(part.complete);
      figure::DrawRequest page{.style = figure::make_style(test::fonts())};
      EXPECT_EQ(part.figure->draw(page).width, page.width);
      parts.push_back(known_rows(*part.figure));
    };
    return eager.make(comparison, request, inputs, test::unwatched, meanwhile);
  };
  std::vector<std::set<std::string>> parts;
  const figure::MadeFigure whole = make_with(nullptr, parts);
  parts.push_back(known_rows(*whole.figure));
  ASSERT_GT(parts.size(), 3U);
  for (std::size_t i = 1; i < parts.size(); ++i) {
    EXPECT_TRUE(std::ranges::includes(parts[i], parts[i - 1])) << "numbers only come, part " << i;
  }
  EXPECT_LT(parts.front().size(), parts[parts.size() / 2].size());
  EXPECT_LT(parts[parts.size() / 2].size(), parts.back().size());

  std::vector<std::set<std::string>> none;
  const figure::MadeFigure again = make_with(whole.figure, none);
  EXPECT_TRUE(none.empty()) << "the older picture stays until the whole is there";
  EXPECT_EQ(known_rows(*again.figure), parts.back());
}

INSTANTIATE_TEST_SUITE_P(Figures, ComparisonParts,
                         ::testing::Values("block-size", "block-overlap", "perturbation-budgets"),
                         [](const auto& name) {
                           std::string text = name.param;
                           std::ranges::replace(text, '-', '_');
                           return text;
                         });

TEST_F(FigureServiceTest, ARewrittenTraceIsAnotherFigure) {
  const figure::MadeFigure before = make();
  inputs.traces = {test::open_synthetic_trace(folder / "t.h5", {.sink_logit = 3.0F})};
  EXPECT_NE(make().figure, before.figure);
  EXPECT_EQ(computed, 2);
}

TEST_F(FigureServiceTest, WhatIsMissingIsRefused) {
  inputs.traces.clear();
  EXPECT_THROW(make(), UsageError);
  const figure::FigureInfo& grid = figure::find_figure("needle-grid");
  EXPECT_THROW(service.make(grid, make_request(grid, {}, {}), {}, test::unwatched), WorkError);
}

}  // namespace
}  // namespace kvloupe::request
