// The worked examples of docs/extending.md, added from outside: one line each.

#include "tests/examples/examples.h"
#include "analysis/policy/kit/spec.h"
#include "analysis/replay/measure/measure_catalog.h"
#include "app/figure/figures/figure_catalog.h"
#include "app/request/figure_service.h"
#include "tests/support/test.h"

namespace kvloupe {

namespace {

/// Before anything reads a catalogue.
const bool added = [] {
  add_policy(examples::strided());
  add_measures(examples::mean_position());
  figure::add_figure(examples::kept_tokens());
  return true;
}();

struct Examples : testing::Test {
  void SetUp() override { ASSERT_TRUE(added); }

  static std::shared_ptr<const Trace> open(const std::filesystem::path& path) {
    return test::open_synthetic_trace(path);
  }

  test::TemporaryFolder folder_;
  std::shared_ptr<const Trace> trace_ = open(folder_ / "trace.h5");
};

TEST_F(Examples, ThePolicyKeepsEveryStridethTokenThenTheLatest) {
  ReplayRequest request{.policy = parse_policy("strided(stride=8)")};
  const int length = trace_->run().prompt_length;
  const int strided = (length + 7) / 8;
  request.budget = strided + 3;
  request.block = length;
  const Replay result = replay(*trace_, request, test::unwatched);
  for (const HeadReplay& head : result.heads) {
    std::vector<std::int32_t> expected;
    for (std::int32_t token = 0; token < length; token += 8) expected.push_back(token);
    int more = 3;
    for (std::int32_t token = length - 1; more > 0; --token) {
      if (token % 8 == 0) continue;
      expected.push_back(token);
      --more;
    }
    std::sort(expected.begin(), expected.end());
    EXPECT_EQ(result.retained_at(head, 0), expected);
  }
}

TEST_F(Examples, ThePolicyTakesModifiersAndItsRangeIsChecked) {
  EXPECT_EQ(parse_policy("strided(stride=8)+sinks(n=2)").text(), "strided(8)+sinks(2)");
  EXPECT_THROW(parse_policy("strided(stride=0)"), UsageError);
}

TEST_F(Examples, TheMeasureIsInTheCatalogueAndInTheReplay) {
  const Measure& measure = require_measure("mean_position");
  ReplayRequest request{.policy = parse_policy("full"), .budget = 1};
  const Replay full = replay(*trace_, request, test::unwatched);
  // All tokens are retained: their mean position is the middle.
  EXPECT_NEAR(measure_of(measure, full.heads.front()), 0.5, 1e-12);
  request.policy = parse_policy("strided(stride=1000000)");
  request.budget = 8;
  const Replay latest = replay(*trace_, request, test::unwatched);
  const double tokens = trace_->run().prompt_length;
  const StepRecord& record = latest.heads.front().steps.at(0);
  const double end = latest.blocks.at(0).end;
  ASSERT_GT(end, 8.0);
  ASSERT_LE(end, tokens);
  // Token 0 and the latest seven.
  EXPECT_NEAR(measure_at(measure, record), (7.0 * end - 28.0) / 8.0 / (end - 1.0), 1e-12);
}

TEST_F(Examples, TheFigureIsMadeByItsName) {
  const figure::FigureInfo& info = figure::find_figure("kept-tokens");
  const figure::MadeFigure made = request::FigureMaker(trace_).make(
      info, {.policy = parse_policy("strided(stride=8)"), .budget = parse_budget("25%")},
      test::unwatched);
  std::ostringstream out;
  figure::CsvWriter csv(out);
  made.figure->write_csv(csv);
  EXPECT_THAT(out.str(), HasSubstr("share_of_heads"));
  EXPECT_THAT(made.figure->caption(), HasSubstr("strided(8)"));
  const figure::TextMetrics metrics;
  const figure::Scene scene = made.figure->draw({.style = figure::make_style(metrics)});
  EXPECT_FALSE(scene.items.empty());
}

TEST_F(Examples, WhatWasReadIsClosed) {
  figure::figure_catalog();
  EXPECT_THROW(figure::add_figure(examples::kept_tokens()), std::logic_error);
  all_measures();
  EXPECT_THROW(add_measures(examples::mean_position()), std::logic_error);
  policy_catalog();
  EXPECT_THROW(add_policy(examples::strided()), std::logic_error);
}

TEST_F(Examples, TheDocsShowTheseFilesAndTheyAreShort) {
  const std::filesystem::path source = KVLOUPE_SOURCE_DIR;
  const std::string docs = test::file_text(source / "docs/extending.md");
  for (const char* name : {"strided.cpp", "mean_position.cpp", "kept_tokens.cpp"}) {
    const std::string text = test::file_text(source / "tests/examples" / name);
    ASSERT_FALSE(text.empty()) << name;
    EXPECT_LT(std::count(text.begin(), text.end(), '\n'), 60) << name;
    EXPECT_NE(docs.find(name == std::string("strided.cpp")
                            ? "```cpp\n" + text + "```\n"
                            : std::string("(../tests/examples/") + name + ")"),
              std::string::npos)
        << "docs/extending.md does not show or name " << name << " as it is";
  }
  const std::string test = test::file_text(source / "tests/examples/examples_test.cpp");
  for (const char* line :
       {"add_policy(examples::strided());", "add_measures(examples::mean_position());",
        "figure::add_figure(examples::kept_tokens());"}) {
    EXPECT_NE(test.find(line), std::string::npos);
    EXPECT_NE(docs.find(line), std::string::npos) << line;
  }
}

}  // namespace

}  // namespace kvloupe
