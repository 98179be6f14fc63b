// kvloupe sweep, as a person calls it.

#include "analysis/replay/measure/measure_catalog.h"
#include "analysis/replay/sweep.h"
#include "tests/app/cli_call.h"
#include "tests/support/test.h"

namespace kvloupe {
namespace {

struct CliSweep : testing::Test, test::MadeTrace {
  CliSweep() : MadeTrace(test::SyntheticTraceOptions{}) {}  // 2 layers, 2 heads, T = 96 + 8, B = 32
  test::Called sweep(const std::string& output, const std::vector<std::string>& more) const {
    return test::call({"sweep", path("trace.h5"), "-o", path(output)}, more);
  }
  std::size_t lines(const std::string& name) const {
    const std::string text = test::file_text(path(name));
    return static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n'));
  }
};

TEST_F(CliSweep, WritesARowPerHeadAndGoesOnWhereItStopped) {
  const test::Called first = sweep("out.csv", {"--policies", "h2o,snapkv(8,pool=max)", "--budgets",
                                               "10%,24", "--blocks", "32,all"});
  ASSERT_EQ(first.code, 0) << first.error;
  EXPECT_EQ(first.out, "");
  EXPECT_THAT(first.error, HasSubstr("8 of 8: snapkv(8,pool=max), budget 24, block 96\n"));
  EXPECT_EQ(lines("out.csv"), 1U + 8U * 4U);
  const test::Called more =
      sweep("out.csv", {"--policies", "h2o,keydiff", "--budgets", "24", "--limit", "retained=24"});
  ASSERT_EQ(more.code, 0) << more.error;
  EXPECT_THAT(more.error, HasSubstr("1 of 2: h2o, budget 24, block 32: already there"));
  EXPECT_EQ(lines("out.csv"), 1U + 9U * 4U);
  EXPECT_THAT(more.out, HasSubstr("     32     0     1         9  h2o\n"));  // ⌊10 % of 96⌋
  EXPECT_THAT(more.out, HasSubstr("     32     1     0        24  keydiff\n"));
}

TEST_F(CliSweep, MeasuresTheAnswersQueriesUnlessToldOtherwise) {
  const auto known = [&](const std::string& name, const std::string& measure) {
    const SweepTable table = SweepTable::load(path(name));
    const auto column = &require_measure(measure) - all_measures().data();
    EXPECT_EQ(table.rows().size(), 4U);
    return std::all_of(table.rows().begin(), table.rows().end(),
                       [&](const SweepRow& row) { return std::isfinite(row.values[column]); });
  };
  const std::vector<std::string> one = {"--policies", "h2o", "--budgets", "24"};
  ASSERT_EQ(sweep("asked.csv", one).code, 0);
  EXPECT_TRUE(known("asked.csv", "answer_residual_change"));
  EXPECT_TRUE(known("asked.csv", "answer_kept_attention"));
  EXPECT_FALSE(known("asked.csv", "later_residual_change"));
  std::vector<std::string> none = one;
  none.insert(none.end(), {"--measures", "none"});
  ASSERT_EQ(sweep("none.csv", none).code, 0);
  EXPECT_FALSE(known("none.csv", "answer_residual_change"));
  EXPECT_TRUE(known("none.csv", "retained"));
}

TEST_F(CliSweep, WhatIsWrongIsSaidBeforeTheWork) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases = {
      {{"--policies", "h2", "--budgets", "9"}, "'h2' at column 1"},
      {{"--policies", "h2o", "--budgets", "9,x"}, "budget 'x'"},
      {{"--policies", "h2o", "--budgets", "9", "--blocks", "0"}, "block '0'"},
      {{"--policies", "h2o", "--budgets", "9", "--limit", "retained"}, "limit 'retained'"},
      {{"--policies", "h2o", "--budgets", "9", "--limit", "retain=3"}, "nearest is 'retained'"},
      {{"--policies", "h2o"}, "--budgets"},
  };
  for (const auto& [arguments, message] : cases) {
    const test::Called outcome = sweep("wrong.csv", arguments);
    EXPECT_EQ(outcome.code, 2) << message;
    EXPECT_THAT(outcome.error, HasSubstr(message));
  }
  EXPECT_FALSE(std::filesystem::exists(path("wrong.csv")));
  std::ofstream(path("mine.csv")) << "my,own,table\n";
  const test::Called foreign = sweep("mine.csv", {"--policies", "h2o", "--budgets", "9"});
  EXPECT_EQ(foreign.code, 1);
  EXPECT_THAT(foreign.error, HasSubstr("is not a sweep"));
  EXPECT_EQ(lines("mine.csv"), 1U);
}

}  // namespace
}  // namespace kvloupe
