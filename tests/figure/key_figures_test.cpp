// The numbers behind the figures of key geometry and merging, read from their CSV files and
// compared with plain loops.

#include "app/document/figure_file.h"
#include "tests/figure/made_figures.h"
#include "tests/naive/naive_geometry.h"
#include "tests/support/test.h"

namespace kvloupe::figure {
namespace {

using Row = test::CsvRow;

struct KeyFiguresTest : ::testing::Test, test::TraceFigures {
  KeyFiguresTest() : TraceFigures({.clusters = 3}) {}

  naive::Vectors keys(int layer, int head) const {
    return naive::vectors_of(states_of_trace.key[layer][head]);
  }
  naive::Vectors queries(int layer, int head) const {
    return naive::vectors_of(states_of_trace.query[layer][head]);
  }
};

TEST_F(KeyFiguresTest, MeanKeyAndMeanQuery) {
  const std::vector<Row> rows = rows_of("mean-key-query");
  ASSERT_EQ(rows.size(), 2U * 4U);
  for (int i = 0; i < 8; ++i) {
    const int layer = i / 4, query_head = i % 4;
    const double expected = naive::cosine(naive::mean(keys(layer, query_head / 2)),
                                          naive::mean(queries(layer, query_head)));
    EXPECT_NEAR(test::csv_number(rows[i], "cosine_of_means"), expected, 1e-8);
  }
}

TEST_F(KeyFiguresTest, DistinctKeysOfAllKeysAreAllKeys) {
  request::FigureSettings settings;
  settings.choices["share"] = "100";
  const std::vector<Row> rows = rows_of("distinct-keys-query", settings);
  ASSERT_EQ(rows.size(), 16U);
  for (std::size_t i = 0; i < 8; ++i) {
    EXPECT_NEAR(test::csv_number(rows[i], "mean_cosine"),
                test::csv_number(rows[i + 8], "mean_cosine"), 1e-8);
  }
}

TEST_F(KeyFiguresTest, AnglesAreThoseToTheMean) {
  request::FigureSettings settings{.layer = 1};
  const naive::Vectors of_head = keys(1, 1);
  const naive::Vector mean = naive::mean(of_head);
  int compared = 0;
  for (const Row& row : rows_of("angles", settings)) {
    if (row.at("of") != "Keys" || row.at("head") != "1") continue;
    const auto token = static_cast<std::size_t>(test::csv_number(row, "token"));
    EXPECT_NEAR(std::cos(test::csv_number(row, "angle_degrees") * std::acos(-1.0) / 180.0),
                naive::cosine(of_head[token], mean), 1e-6);
    ++compared;
  }
  EXPECT_EQ(compared, 104);
}

TEST_F(KeyFiguresTest, KeydiffKeepsTheLowestCosines) {
  request::FigureSettings settings{.step = 2, .budget = parse_budget("20")};
  double highest_kept = -2.0, lowest_evicted = 2.0;
  int kept = 0;
  for (const Row& row : rows_of("keydiff-stages", settings)) {
    const double cosine = test::csv_number(row, "cosine_to_anchor");
    if (row.at("kept") == "1") {
      highest_kept = std::max(highest_kept, cosine);
      ++kept;
    } else {
      lowest_evicted = std::min(lowest_evicted, cosine);
    }
    EXPECT_NEAR(test::csv_number(row, "along_anchor"), cosine, 1e-5);
  }
  EXPECT_EQ(kept, 20);
  EXPECT_LE(highest_kept, lowest_evicted + 1e-6);
}

TEST_F(KeyFiguresTest, DiversityIsThatOfTheRetainedSets) {
  request::FigureSettings settings{.step = 2, .budget = parse_budget("24")};
  settings.choices["policies"] = "random";
  settings.choices["measure"] = "objective";
  ReplayRequest request{.policy = parse_policy("random"), .budget = 24};
  const Replay random = replay(*trace, request, test::unwatched);
  int compared = 0;
  for (const Row& row : rows_of("diversity", settings)) {
    if (row.at("panel") != "Objective") continue;
    const int layer = static_cast<int>(test::csv_number(row, "layer"));
    const int head = static_cast<int>(test::csv_number(row, "head"));
    const std::vector<std::int32_t> kept = random.retained_at(*random.find(layer, head), 2);
    const double expected =
        naive::objective(keys(layer, head), std::vector<int>(kept.begin(), kept.end()));
    EXPECT_NEAR(test::csv_number(row, "value"), expected, 1e-6 * expected);
    ++compared;
  }
  EXPECT_EQ(compared, 4);
}

TEST_F(KeyFiguresTest, OneBlockOverlapsWithItselfWhole) {
  request::FigureSettings settings;
  settings.choices["policies"] = "keydiff,h2o";
  settings.choices["blocks"] = "16,48";
  for (const Row& row : rows_of("block-overlap", settings)) {
    const double overlap = test::csv_number(row, "overlap_percent");
    if (row.at("block") == "∞") {
      EXPECT_EQ(overlap, 100.0);
    }
    EXPECT_GT(overlap, 0.0);
    EXPECT_LE(overlap, 100.0);
  }
}

TEST_F(KeyFiguresTest, RetainedShareIsBudgetOverLength) {
  request::FigureSettings settings;
  settings.choices["budgets"] = "24,96,500";
  int compared = 0;
  for (const Row& row : rows_of("retained-share", settings)) {
    if (row.at("panel") != "Retained") continue;
    EXPECT_NEAR(test::csv_number(row, "percent"),
                100.0 * std::min(1.0, test::csv_number(row, "tokens") / 96.0), 1e-6);
    ++compared;
  }
  EXPECT_EQ(compared, 3);
}

TEST_F(KeyFiguresTest, LocalSimilarityOfTheSelectedHead) {
  request::FigureSettings settings{.layer = 0, .head = 1};
  settings.choices["distance"] = "5";
  const naive::Vectors of_head = keys(0, 1);
  int compared = 0;
  for (const Row& row : rows_of("local-similarity", settings)) {
    if (row.at("panel") != "Keys" || row.at("line") != "head 1") continue;
    const auto distance = static_cast<std::size_t>(test::csv_number(row, "distance"));
    double sum = 0.0;
    for (std::size_t t = distance; t < of_head.size(); ++t) {
      sum += naive::cosine(of_head[t], of_head[t - distance]);
    }
    EXPECT_NEAR(test::csv_number(row, "cosine"),
                sum / static_cast<double>(of_head.size() - distance), 1e-8);
    ++compared;
  }
  EXPECT_EQ(compared, 5);
}

TEST_F(KeyFiguresTest, TheKernelFallsToItsHalfWidth) {
  request::FigureSettings settings;
  settings.choices["sigma"] = "2";
  for (const Row& row : rows_of("kernel", settings)) {
    const double distance = test::csv_number(row, "distance");
    EXPECT_NEAR(test::csv_number(row, "kernel"), std::exp(-distance * distance / 8.0), 1e-8);
  }
}

TEST_F(KeyFiguresTest, SigmaNeedsAPolicyThatMerges) {
  request::FigureSettings settings;
  settings.choices["policies"] = "h2o";
  const request::FigureMaker maker(trace);
  EXPECT_THROW(maker.make(find_figure("sigma-sweep"), settings, test::unwatched), UsageError);
}

TEST_F(KeyFiguresTest, AWiderSigmaCountsMoreMembers) {
  request::FigureSettings settings{.budget = parse_budget("40")};
  settings.choices["policies"] = "h2o+kvmerger(threshold=auto)";
  settings.choices["sigma"] = "0.1,1,100";
  std::map<double, double> members;
  for (const Row& row : rows_of("sigma-sweep", settings)) {
    if (row.at("panel") == "Effective members" && row.at("line") == "mean") {
      members[test::csv_number(row, "sigma")] = test::csv_number(row, "value");
    }
  }
  ASSERT_EQ(members.size(), 3U);
  EXPECT_LT(members.at(0.1), members.at(1));
  EXPECT_LT(members.at(1), members.at(100));
  EXPECT_GE(members.at(0.1), 1.0 - 1e-6);
}

TEST_F(KeyFiguresTest, WeightsOfAMergingSetAddUpToOne) {
  request::FigureSettings settings{.step = 2, .budget = parse_budget("30")};
  settings.choices["policies"] = "h2o+kvmerger(threshold=auto)";
  std::map<std::string, double> sums;
  for (const Row& row : rows_of("merge-sets", settings))
    sums[row.at("pivot")] += test::csv_number(row, "weight");
  EXPECT_FALSE(sums.empty());
  for (const auto& [pivot, sum] : sums) EXPECT_NEAR(sum, 1.0, 1e-5) << pivot;
}

}  // namespace
}  // namespace kvloupe::figure
