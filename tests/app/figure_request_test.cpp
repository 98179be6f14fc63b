// A request over the whole catalogue: it holds what its figure reads and nothing else, its command
// line and its session ask for the same again, and another content of a file makes another request.

#include "app/request/figure_request.h"

#include <CLI/CLI.hpp>
#include <unordered_set>

#include "app/cli/figure_options.h"
#include "app/request/command_line.h"
#include "app/session/session.h"
#include "app/session/view_catalog.h"
#include "tests/app/shell_words.h"
#include "tests/figure/made_figures.h"
#include "tests/support/synthetic_evaluation.h"
#include "tests/support/test.h"

namespace kvloupe::request {
namespace {

/// The settings that the command line's parser reads from a line of command_line().
FigureSettings parsed(const std::string& line) {
  CLI::App app;
  cli::FigureOptions options;
  cli::add_figure_options(app, options);
  std::vector<std::string> inputs;
  std::string figure, output;
  app.add_option("INPUT", inputs);
  app.add_option("--figure", figure);
  app.add_option("--output", output);
  app.add_option("--set", options.choices)->allow_extra_args(false);
  std::vector<std::string> words = test::shell_words(line);
  words.erase(words.begin(), words.begin() + 2);  // kvloupe export
  std::vector<std::string> reversed(words.rbegin(), words.rend());
  app.parse(reversed);
  return cli::settings_of(options);
}

struct FigureRequestTest : ::testing::TestWithParam<std::string> {
  static void SetUpTestSuite() {
    folder = new test::TemporaryFolder;
    test::SyntheticTraceOptions options{.lm_head = true};
    test::write_synthetic_trace(*folder / "full.h5", options);
    test::write_synthetic_closed_loop(*folder / "closed.h5", options, "h2o", 24);
    inputs = new FigureInputs;
    inputs->traces = {std::make_shared<const Trace>(*folder / "full.h5")};
    inputs->other_loop = std::make_shared<const Trace>(*folder / "closed.h5");
    inputs->evaluation =
        test::results_of(test::write_synthetic_evaluation(*folder / "needle.json"));
  }
  static void TearDownTestSuite() {
    delete inputs;
    delete folder;
  }

  const figure::FigureInfo& info() const { return figure::find_figure(GetParam()); }
  FigureRequest of(const FigureSettings& settings) const {
    return make_request(info(), settings, *inputs);
  }
  /// One field changed, and whether the catalogue says that the figure reads it.
  struct Change {
    std::string field;
    bool read = false;
    FigureSettings settings;
  };
  static FigureSettings base() {
    return FigureSettings{.layer = 1, .head = 1, .policy = parse_policy("h2o+recent(20%)")};
  }
  std::vector<Change> changes() const {
    const figure::Needs& needs = info().needs;
    const bool replays = needs.policy || needs.policy_b || needs.comparison;
    std::vector<Change> all;
    const auto add = [&](const char* field, bool read, auto change) {
      // Figures of results read nothing of a trace; one of a head reads which.
      const bool of_head = field == std::string("layer") || field == std::string("head");
      all.push_back({field, read && (of_head || !needs.evaluation), base()});
      change(all.back().settings);
    };
    add("layer", needs.head, [](FigureSettings& s) { s.layer = 0; });
    add("head", needs.head, [](FigureSettings& s) { s.head = 0; });
    add("query head", needs.head, [](FigureSettings& s) { s.query_head = 3; });
    add("step", needs.step, [](FigureSettings& s) { s.step = 1; });
    add("tokens", needs.tokens, [](FigureSettings& s) { s.tokens = {{3, 40}}; });
    add("token", needs.token, [](FigureSettings& s) { s.token = 7; });
    add("policy A", replays, [](FigureSettings& s) { s.policy = parse_policy("tova"); });
    add("policy B", replays && draws_policy_b(info(), {}),
        [](FigureSettings& s) { s.policy_b = parse_policy("sink"); });
    add("block", replays, [](FigureSettings& s) { s.block = 16; });
    add("compression", replays,
        [](FigureSettings& s) { s.compression = Compression::context_only; });
    add("budget", replays, [](FigureSettings& s) { s.budget = parse_budget("31"); });
    all.back().read |= needs.evaluated_budget;
    for (const figure::ChoiceInfo& choice : info().choices) {
      for (std::size_t i = 1; i < choice.values.size(); ++i) {
        all.push_back({choice.name, true, base()});
        all.back().settings.choices[choice.name] = choice.values[i];
      }
    }
    return all;
  }

  static test::TemporaryFolder* folder;
  static FigureInputs* inputs;
};
test::TemporaryFolder* FigureRequestTest::folder = nullptr;
FigureInputs* FigureRequestTest::inputs = nullptr;

TEST_P(FigureRequestTest, HoldsWhatTheFigureReadsAndNothingElse) {
  const FigureRequest before = of(base());
  EXPECT_EQ(missing(info(), before), info().needs.fewest_traces > 1 && !info().needs.both_loops
                                         ? Missing::more_traces
                                         : Missing::nothing);
  EXPECT_EQ(before, of(base()));
  EXPECT_EQ(hash_of(before), hash_of(of(base())));
  std::unordered_set<FigureRequest> different{before};
  std::size_t expected = 1;
  for (const Change& change : changes()) {
    const FigureRequest after = of(change.settings);
    EXPECT_EQ(after == before, !change.read) << change.field;
    EXPECT_EQ(hash_of(after) == hash_of(before), !change.read) << change.field;
    different.insert(after);
    expected += change.read ? 1 : 0;
  }
  EXPECT_EQ(different.size(), expected);
}

TEST_P(FigureRequestTest, ADefaultThatIsSaidIsTheDefault) {
  FigureSettings said = base();
  said.tokens = {{0, inputs->traces.front()->length() - 1}};
  said.query_head = -1;
  said.token = -1;
  for (const figure::ChoiceInfo& choice : info().choices)
    said.choices[choice.name] = choice.values.front();
  const FigureRequest unsaid = of(base());
  if (unsaid.selection.step >= 0) said.step = unsaid.selection.step;
  EXPECT_EQ(of(said), unsaid);
}

TEST_P(FigureRequestTest, ItsCommandLineAsksForTheSameAgain) {
  for (const Change& change : changes()) {
    const FigureRequest request = of(change.settings);
    const std::string line = command_line(info(), request, {}, {200.0, 100.0}, "it's.svg");
    FigureSettings again = parsed(line);
    EXPECT_EQ(of(again), request) << line;
    EXPECT_THAT(line, HasSubstr("--figure " + GetParam() + " "));
    for (const InputIdentity& input : request.inputs) EXPECT_THAT(line, HasSubstr(input.path));
  }
}

TEST_P(FigureRequestTest, ASessionAsksForTheSameAgain) {
  if (window::find_view(GetParam()) == nullptr) return;
  window::WorkspaceState state = window::default_state();
  state.trace = (*folder / "full.h5").string();
  state.tile_count = 1;
  state.tiles.front() = {.view = GetParam()};
  for (const figure::ChoiceInfo& choice : info().choices)
    state.tiles.front().choices[choice.name] = choice.values.back();
  state.policy_a = parse_policy("h2o+recent(20%)");
  state.policy_b = parse_policy("tova");
  state.policy_b_on = true;
  state.budget = parse_budget("31");
  state.block = 16;
  state.compression = Compression::context_only;
  state.selection = {.layer = 1, .head = 1, .query_head = 3, .step = 1, .token = 7};
  state.selection.first_token = 3;
  state.selection.last_token = 40;
  const auto path = *folder / (GetParam() + ".json");
  window::write_session(state, path);
  const window::WorkspaceState again = window::read_session(path);
  EXPECT_EQ(of(settings_of(again, again.tiles.front())),
            of(settings_of(state, state.tiles.front())));
}

TEST_P(FigureRequestTest, SaysWhatIsMissing) {
  const FigureRequest of_nothing = make_request(info(), base(), {});
  EXPECT_EQ(missing(info(), of_nothing),
            info().needs.evaluation ? Missing::evaluation : Missing::trace);
  if (info().needs.evaluation) return;
  FigureInputs one{.traces = inputs->traces};
  EXPECT_EQ(missing(info(), make_request(info(), base(), one)),
            info().needs.both_loops          ? Missing::other_loop
            : info().needs.fewest_traces > 1 ? Missing::more_traces
                                             : Missing::nothing);
  FigureSettings no_b = base();
  no_b.choose_policy_b = false;
  EXPECT_EQ(missing(info(), of(no_b)) == Missing::policy_b, info().needs.policy_b);
}

std::vector<std::string> names() {
  std::vector<std::string> all;
  for (const figure::FigureInfo& info : figure::figure_catalog()) all.push_back(info.name);
  return all;
}
INSTANTIATE_TEST_SUITE_P(All, FigureRequestTest, ::testing::ValuesIn(names()),
                         [](const auto& test) {
                           std::string name = test.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

TEST(FigureRequestContent, ARewrittenTraceMakesAnotherRequest) {
  test::TemporaryFolder folder;
  test::SyntheticTraceOptions options;
  test::write_synthetic_trace(folder / "t.h5", options);
  const figure::FigureInfo& info = figure::find_figure("similarity");
  const auto open = [&] {
    return FigureInputs{.traces = {std::make_shared<const Trace>(folder / "t.h5")}};
  };
  const FigureRequest before = make_request(info, {}, open());
  EXPECT_EQ(make_request(info, {}, open()), before);
  options.sink_logit = 3.0F;
  test::write_synthetic_trace(folder / "t.h5", options);
  EXPECT_FALSE(make_request(info, {}, open()) == before);
}

TEST(FigureRequestContent, ARewrittenEvaluationMakesAnotherRequest) {
  test::TemporaryFolder folder;
  const auto path = test::write_synthetic_evaluation(folder / "needle.json");
  const figure::FigureInfo& info = figure::find_figure("needle-grid");
  const auto open = [&] { return FigureInputs{.evaluation = test::results_of(path)}; };
  const FigureRequest before = make_request(info, {}, open());
  EXPECT_EQ(make_request(info, {}, open()), before);
  std::ofstream(path, std::ios::app) << "\n";
  EXPECT_FALSE(make_request(info, {}, open()) == before);
}

TEST(FigureRequestContent, ARewrittenExternalFileMakesAnotherRequest) {
  test::TemporaryFolder folder;
  FigureInputs inputs{.traces = {test::open_synthetic_trace(folder / "t.h5")}};
  const auto file = folder / "sets.json";
  const std::string spec = "external(\"" + file.string() + "\")";
  const auto write = [&](const char* text) { std::ofstream(file) << text; };
  RequestMaker maker;
  // As policy A, and as one of a comparison's list.
  for (const bool listed : {false, true}) {
    const figure::FigureInfo& info = figure::find_figure(listed ? "gram-volume" : "filmstrip");
    FigureSettings settings;
    if (listed) {
      settings.choices["policies"] = "h2o," + spec;
    } else {
      settings.policy = parse_policy(spec);
    }
    write("{}");
    const FigureRequest before = maker.make(info, settings, inputs);
    EXPECT_EQ(maker.make(info, settings, inputs), before);
    write("{ }");
    EXPECT_FALSE(maker.make(info, settings, inputs) == before) << info.name;
  }
}

TEST(RequestMaker, FollowsWhatItIsMadeOf) {
  test::TemporaryFolder folder;
  FigureInputs inputs{.traces = {test::open_synthetic_trace(folder / "t.h5")}};
  const figure::FigureInfo& info = figure::find_figure("filmstrip");
  RequestMaker maker;
  FigureSettings settings;
  for (const char* policy : {"h2o", "h2o", "tova", "keydiff"}) {
    settings.policy = parse_policy(policy);
    EXPECT_EQ(maker.make(info, settings, inputs), make_request(info, settings, inputs));
    EXPECT_EQ(maker.last().policy_a->text(), policy);
  }
  settings.layer = 99;
  EXPECT_THROW(maker.make(info, settings, inputs), UsageError);
  settings.layer.reset();
  EXPECT_EQ(maker.make(info, settings, inputs), make_request(info, settings, inputs));
  EXPECT_EQ(maker.make(figure::find_figure("similarity"), settings, inputs).figure, "similarity");
}

}  // namespace
}  // namespace kvloupe::request
