// Sweeps: what is computed, kept, refused.

#include "analysis/replay/sweep.h"
#include "analysis/replay/measure/measure_catalog.h"
#include "tests/support/record_values.h"
#include "tests/support/test.h"

namespace kvloupe {
namespace {

struct SweepTest : testing::Test, test::MadeTrace {
  SweepTest()
      : MadeTrace(test::SyntheticTraceOptions{}) {}  // 2 layers, 2 heads, T = 96 + 8, B = 32

  std::vector<SweepSetting> settings(const std::string& policies,
                                     const std::vector<std::string>& budgets,
                                     std::vector<int> blocks = {0}) const {
    SweepRequest request{.policies = parse_policy_list(policies)};
    for (const std::string& budget : budgets) request.budgets.push_back(parse_budget(budget));
    request.blocks = std::move(blocks);
    return sweep_settings(*trace_, request);
  }
  /// How many replays it took.
  int run(const std::vector<SweepSetting>& all, SweepTable& table) const {
    int replays = 0;
    run_sweep(*trace_, all, path("out.csv"), table, test::unwatched,
              [&](std::size_t, std::size_t, const SweepSetting&, bool known) {
                replays += known ? 0 : 1;
              });
    return replays;
  }
  std::string content() const { return test::file_text(path("out.csv")); }
};

TEST_F(SweepTest, SettingsAreAllCombinationsOnce) {
  // 25 % of the prompt's 96 is 24.
  const auto all = settings("keydiff,h2o,keydiff(mean)", {"24", "25%", "10"}, {0, 32, 96});
  ASSERT_EQ(all.size(), 2U * 2U * 2U);
  EXPECT_EQ(all[0], (SweepSetting{parse_policy("keydiff"), 24, 32}));
  EXPECT_EQ(all[1].block, 96);
  EXPECT_EQ(all[7], (SweepSetting{parse_policy("h2o"), 10, 96}));
  EXPECT_THROW(settings("h2o", {"10"}, {-1}), UsageError);
}

TEST_F(SweepTest, SenselessCombinationsAreRefusedBeforeAnyWork) {
  for (const char* policies : {"h2o,h2o+kvmerger+cam", "full+recent", "tova(layer)+adakv,h2o",
                               "external(\"sets.json\")+sinks"}) {
    EXPECT_THROW(settings(policies, {"10"}), UsageError) << policies;
  }
}

TEST_F(SweepTest, RowsHoldTheMeasuresOfTheReplay) {
  const auto all = settings("h2o+kvmerger(auto),tova", {"20"});
  SweepTable table;
  EXPECT_EQ(run(all, table), 2);
  ASSERT_EQ(table.rows().size(), 2U * 4U);
  const Replay tova = replay(*trace_, {.policy = all[1].policy, .budget = 20}, test::unwatched);
  const auto column = [](std::string_view name) {
    std::size_t i = 0;
    while (all_measures().at(i).info->name != name) ++i;
    return i;
  };
  for (std::size_t i = 0; i < 4; ++i) {
    const SweepRow& row = table.rows()[4 + i];
    const HeadReplay& head = tova.heads[i];
    EXPECT_EQ(row.layer, head.layer);
    EXPECT_EQ(row.head, head.head);
    EXPECT_EQ(row.values[column("retained")], 20.0);
    EXPECT_DOUBLE_EQ(row.values[column("retained_share")], 20.0 / 104.0);
    EXPECT_EQ(row.values[column("absorbed")], 0.0);
    // Block 32 exceeds 20 at once: every step counts, two query heads each.
    double sum = 0.0;
    for (const StepRecord& step : head.steps) {
      for (const QueryHeadMetrics& metrics : test::metrics_of(step)) sum += metrics.perturbation_l1;
    }
    EXPECT_NEAR(row.values[column("perturbation_l1")],
                sum / (2.0 * static_cast<double>(head.steps.size())), 1e-12);
    EXPECT_LE(row.values[column("tightness_l1")], 1.0);
    EXPECT_GT(table.rows()[i].values[column("absorbed")], 10.0);
    EXPECT_TRUE(std::isnan(table.rows()[i].values[column("bound_l1")]));
  }
}

TEST_F(SweepTest, EveryRowIsThatOfAReplayAlone) {
  // Of several replays, what the full cache alone decides is computed once.
  const auto all = settings("h2o,tova,h2o+kvmerger(auto),snapkv+caote", {"10", "60"}, {0, 16});
  SweepTable table;
  EXPECT_EQ(run(all, table), 16);
  ASSERT_EQ(table.rows().size(), 16U * 4U);
  const auto& measures = all_measures();
  for (std::size_t i = 0; i < all.size(); ++i) {
    ReplayRequest request{.policy = all[i].policy, .budget = all[i].budget, .block = all[i].block};
    const Replay alone = replay(*trace_, request, test::unwatched);
    for (std::size_t h = 0; h < alone.heads.size(); ++h) {
      const SweepRow& row = table.rows()[4 * i + h];
      for (std::size_t m = 0; m < measures.size(); ++m) {
        const double value = measure_of(measures[m], alone.heads[h]);
        EXPECT_TRUE(row.values[m] == value || (std::isnan(row.values[m]) && std::isnan(value)))
            << all[i].policy.text() << " " << all[i].budget << " " << measures[m].info->name << ": "
            << row.values[m] << ", alone " << value;
      }
    }
  }
}

TEST_F(SweepTest, GoesOnWhereItWasAndKeepsWhatIsThere) {
  SweepTable first;
  EXPECT_EQ(run(settings("keydiff", {"10", "20"}), first), 2);
  const std::string before = content();
  SweepTable again = SweepTable::load(path("out.csv"));
  ASSERT_EQ(again.rows().size(), first.rows().size());
  for (std::size_t i = 0; i < again.rows().size(); ++i) {
    EXPECT_EQ(again.rows()[i].policy, first.rows()[i].policy);
    ASSERT_EQ(again.rows()[i].values.size(), first.rows()[i].values.size());
    for (std::size_t j = 0; j < again.rows()[i].values.size(); ++j) {
      const double a = again.rows()[i].values[j];
      const double b = first.rows()[i].values[j];
      EXPECT_TRUE(a == b || (std::isnan(a) && std::isnan(b)));
    }
  }
  EXPECT_EQ(run(settings("keydiff", {"20", "10", "30"}), again), 1);
  const std::string after = content();
  EXPECT_EQ(after.substr(0, before.size()), before);
  EXPECT_GT(after.size(), before.size());
  EXPECT_EQ(run(settings("keydiff", {"30"}), again), 0);
}

TEST_F(SweepTest, APolicyWithCommasAndQuotesIsReadBack) {
  SweepTable table;
  EXPECT_EQ(run(settings("snapkv(8,pool=max)+recent(3)", {"20"}), table), 1);
  SweepTable again = SweepTable::load(path("out.csv"));
  EXPECT_EQ(again.rows().front().policy, "snapkv(8,pool=max)+recent(3)");
  EXPECT_EQ(run(settings("snapkv(8,pool=max)+recent(3)", {"20"}), again), 0);
}

TEST_F(SweepTest, AHalfReplayIsComputedAgain) {
  SweepTable table;
  run(settings("keynorm", {"10"}), table);
  const std::string whole = content();
  const std::string cut = whole.substr(0, whole.rfind('\n', whole.size() - 2) + 1);
  std::ofstream(path("out.csv")) << cut;
  SweepTable again = SweepTable::load(path("out.csv"));
  EXPECT_EQ(again.rows().size(), 3U);
  EXPECT_EQ(run(settings("keynorm", {"10"}), again), 1);
  EXPECT_EQ(content(), whole);
}

TEST_F(SweepTest, OtherFilesAreNotOverwritten) {
  const auto problem = [&](const std::string& text) -> std::string {
    std::ofstream(path("other.csv")) << text;
    return test::error_of<FileError>([&] { SweepTable::load(path("other.csv")); }, "accepted");
  };
  EXPECT_EQ(SweepTable::load(path("none.csv")).rows().size(), 0U);
  EXPECT_THAT(problem("a,b\n1,2\n"), HasSubstr("is not a sweep"));
  EXPECT_THAT(problem(""), HasSubstr("is not a sweep"));
  SweepTable table;
  run(settings("keynorm", {"10"}), table);
  const std::string good = content();
  EXPECT_EQ(problem(good), "accepted");
  EXPECT_THAT(problem(good + "x\n"), HasSubstr("line 6"));
  EXPECT_THAT(problem(good.substr(0, good.size() / 2)), HasSubstr("is not a row"));
  EXPECT_THROW(SweepTable::load(folder_.path().string()), FileError);
}

TEST_F(SweepTest, TheSmallestBudgetUnderALimitIsFoundPerHead) {
  SweepTable table;
  run(settings("keydiff", {"40", "10", "104"}), table);
  const auto lossless = smallest_budgets(table, *trace_, "perturbation_l1", 0.0);
  ASSERT_EQ(lossless.size(), 4U);
  for (const SmallestBudget& one : lossless) EXPECT_EQ(one.budget, 104);
  for (const SmallestBudget& one : smallest_budgets(table, *trace_, "retained", 39.0)) {
    EXPECT_EQ(one.budget, 10);
  }
  for (const SmallestBudget& one : smallest_budgets(table, *trace_, "retained", 9.0)) {
    EXPECT_FALSE(one.budget.has_value());
  }
  // More of this is better: a limit is its least value.
  for (const SmallestBudget& one : smallest_budgets(table, *trace_, "retained_mass", 1.0))
    EXPECT_EQ(one.budget, 104);
  EXPECT_THAT(
      test::error_of<UsageError>([&] { smallest_budgets(table, *trace_, "perturbation", 1.0); }),
      HasSubstr("nearest is 'perturbation_l1'"));
}

}  // namespace
}  // namespace kvloupe
