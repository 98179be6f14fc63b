// Tables of entries by head: the greedy division beside all divisions, and the way from a study to
// a table that headbudgets reads.

#include "analysis/study/head_advice.h"
#include "analysis/policy/kit/head_table_file.h"
#include "analysis/policy/kit/spec.h"
#include "analysis/study/database.h"
#include "tests/support/synthetic_study.h"
#include "tests/support/test.h"

namespace kvloupe {
namespace {

/// The smallest sum over every division of the steps.
double smallest_sum(const std::vector<std::vector<double>>& losses, std::size_t head, long steps) {
  if (head == losses.size()) return steps == 0 ? 0.0 : std::numeric_limits<double>::infinity();
  double least = std::numeric_limits<double>::infinity();
  for (long k = 0; k <= steps && k < std::ssize(losses[head]); ++k) {
    least = std::min(least, losses[head][k] + smallest_sum(losses, head + 1, steps - k));
  }
  return least;
}

/// Convex, never rising: gains that fall.
std::vector<double> convex_losses(std::mt19937& random, int steps) {
  std::vector<double> gains;
  for (int k = 0; k < steps; ++k) gains.push_back(std::generate_canonical<double, 53>(random));
  std::sort(gains.rbegin(), gains.rend());
  std::vector<double> losses{std::accumulate(gains.begin(), gains.end(), 0.0)};
  for (const double gain : gains) losses.push_back(losses.back() - gain);
  return losses;
}

double sum_of(const std::vector<std::vector<double>>& losses, const std::vector<int>& steps) {
  double sum = 0.0;
  for (std::size_t h = 0; h < losses.size(); ++h) sum += losses[h][steps[h]];
  return sum;
}

TEST(HeadAllocation, NoDivisionLosesLessThanTheGreedyOne) {
  std::mt19937 random(5);
  for (int i = 0; i < 60; ++i) {
    std::vector<std::vector<double>> losses;
    const int heads = 2 + i % 3;
    for (int h = 0; h < heads; ++h) losses.push_back(convex_losses(random, 3 + (i + h) % 4));
    for (long steps = 0; steps <= 3L * heads; ++steps) {
      const std::vector<int> given = share_steps(losses, steps);
      EXPECT_EQ(std::accumulate(given.begin(), given.end(), 0L), steps);
      EXPECT_NEAR(sum_of(losses, given), smallest_sum(losses, 0, steps), 1e-12);
    }
  }
}

TEST(HeadAllocation, NoExchangeOfOneStepLowersTheTotal) {
  std::mt19937 random(6);
  std::vector<std::vector<double>> losses;
  for (int h = 0; h < 40; ++h) losses.push_back(convex_losses(random, 30));
  const std::vector<int> given = share_steps(losses, 40L * 9);
  for (const auto& [from, to] : test::cells(losses.size(), losses.size())) {
    if (from == to || given[from] == 0 || given[to] == 30) continue;
    std::vector<int> other = given;
    --other[from];
    ++other[to];
    EXPECT_GE(sum_of(losses, other), sum_of(losses, given) - 1e-12);
  }
}

TEST(HeadAllocation, EqualHeadsShareEvenlyAndFullHeadsTakeNoMore) {
  const std::vector<double> flat(10, 1.0);
  EXPECT_THAT(share_steps(std::vector{flat, flat, flat}, 6), ElementsAre(2, 2, 2));
  const std::vector<double> small{3.0, 0.0};
  EXPECT_THAT(share_steps(std::vector{flat, small}, 3), ElementsAre(2, 1));
  EXPECT_THAT(share_steps(std::vector{small, small}, 9), ElementsAre(1, 1));
}

/// The largest convex curve below the points, from its definition: at each point the least value of
/// all lines between two points on both sides; then what never rises.
std::vector<double> naive_convex(const LossCurve& curve) {
  std::vector<double> result;
  for (std::size_t k = 0; k < curve.entries.size(); ++k) {
    double least = curve.losses[k];
    for (std::size_t i = 0; i < k; ++i) {
      least = std::min(least, curve.losses[i]);  // it never rises
      for (std::size_t j = k + 1; j < curve.entries.size(); ++j) {
        const double part =
            (curve.entries[k] - curve.entries[i]) / (curve.entries[j] - curve.entries[i]);
        least = std::min(least, curve.losses[i] + part * (curve.losses[j] - curve.losses[i]));
      }
    }
    result.push_back(least);
  }
  return result;
}

TEST(HeadAllocation, TheConvexCurveIsTheLargestBelowThePoints) {
  std::mt19937 random(7);
  for (int i = 0; i < 200; ++i) {
    LossCurve curve;
    double at = 0.0;
    for (int k = 0; k < 7; ++k) {
      at += 1.0 + 9.0 * std::generate_canonical<double, 53>(random);
      curve.entries.push_back(at);
      curve.losses.push_back(1.0 / (1.0 + k) + 0.4 * std::generate_canonical<double, 53>(random));
    }
    const LossCurve convex = convex_curve(curve);
    const std::vector<double> naive = naive_convex(curve);
    for (std::size_t k = 0; k < naive.size(); ++k)
      EXPECT_NEAR(convex.losses[k], naive[k], 1e-12) << i << ", point " << k;
  }
  const LossCurve one{{1.0, 2.0, 4.0}, {3.0, 2.0, 5.0}};
  EXPECT_EQ(one.at(0.5), 3.0);
  EXPECT_EQ(one.at(3.0), 3.5);
  EXPECT_EQ(one.at(9.0), 5.0);
}

TEST(HeadAllocation, EntriesSumToTheMeanExactly) {
  const std::vector<LossCurve> curves{{{10.0, 50.0, 90.0}, {4.0, 1.0, 0.5}},
                                      {{10.0, 50.0, 90.0}, {1.0, 0.2, 0.0}}};
  const std::vector<double> entries = share_entries(curves, 33.0, 10.0, 0.7);
  EXPECT_NEAR(entries[0] + entries[1], 66.0, 1e-9);
  EXPECT_NEAR(entries[0], 50.0, 0.7);  // there its slope falls from 0.075 to 0.0125; 0.02 is next
}

struct HeadAdviceOfStudy : testing::Test, test::MadeStudy {
  HeadAdvice advise(const HeadRequest& request) const {
    return advise_heads(read_study_table(path_), request);
  }
  std::string refusal(const HeadRequest& request) const {
    return test::error_of<UsageError>([&] { advise(request); });
  }
  static HeadRequest request() {
    HeadRequest request;
    request.measure = "perturbation_l1";
    request.budget = "25%";
    return request;
  }
  std::string file(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ / name, std::ios::binary) << text;
    return (folder_ / name).string();
  }
};

/// A head's mean loss at 20, 50, 100 and all 200 entries, from the function behind the file.
LossCurve curve_of(int policy, int layer, int head) {
  LossCurve curve{{20.0, 50.0, 100.0, 200.0}, {}};
  for (int budget = 0; budget < test::kStudyBudgets; ++budget) {
    double sum = 0.0;
    for (int prompt = 0; prompt < test::kStudyPrompts; ++prompt)
      sum += test::study_value(prompt, policy, budget, layer, head);
    curve.losses.push_back(sum / test::kStudyPrompts);
  }
  curve.losses.push_back(0.0);
  return curve;
}

TEST_F(HeadAdviceOfStudy, TheTableIsTheBestAmongItsNeighbours) {
  const HeadAdvice advice = advise(request());
  ASSERT_EQ(advice.heads.size(), 6U);
  EXPECT_EQ(advice.prompts, test::kStudyPrompts);
  EXPECT_THAT(head_advice_markdown(advice), HasSubstr("learnt from 8 prompts"));
  EXPECT_NEAR(advice.entries, 50.0, 1e-9);
  EXPECT_NEAR(std::accumulate(advice.table.begin(), advice.table.end(), 0.0), 300.0, 1e-9);
  std::vector<LossCurve> convex, curves;
  for (const HeadMeasureTable::Head& one : advice.heads) {
    curves.push_back(curve_of(0, one.layer, one.head));
    convex.push_back({curves.back().entries, naive_convex(curves.back())});
  }
  const auto total = [](const std::vector<LossCurve>& of, const HeadEntries& entries) {
    double sum = 0.0;
    for (std::size_t h = 0; h < of.size(); ++h) sum += of[h].at(entries[h]);
    return sum;
  };
  for (std::size_t from = 0; from < 6; ++from) {
    for (std::size_t to = 0; to < 6; ++to) {
      HeadEntries other = advice.table;
      other[from] -= 1.0;
      other[to] += 1.0;
      if (from == to || other[from] < 20.0 || other[to] > 200.0) continue;
      EXPECT_GE(total(convex, other), total(convex, advice.table) - 1e-9);
    }
  }
  EXPECT_EQ(advice.sharings[0].name, "uniform");
  EXPECT_NEAR(advice.sharings[0].foretold, total(curves, HeadEntries(6, 50.0)), 1e-9);
  EXPECT_NEAR(advice.sharings[0].measured, total(curves, HeadEntries(6, 50.0)), 1e-9);
  EXPECT_EQ(advice.sharings[1].name, "this table");
  EXPECT_NEAR(advice.sharings[1].foretold, total(curves, advice.table), 1e-9);
  EXPECT_LE(advice.saved_low, advice.saved);
  EXPECT_GT(advice.same_entries, 0.5);
  for (std::size_t h = 0; h < 6; ++h) EXPECT_LE(advice.low[h], advice.high[h]);
}

TEST_F(HeadAdviceOfStudy, TheFloorHoldsAndAnotherPolicyIsTried) {
  HeadRequest asked = request();
  asked.floor = 0.9;
  asked.tried = "keydiff";
  const HeadAdvice advice = advise(asked);
  for (const double entries : advice.table) EXPECT_GE(entries, 45.0 - 1e-9);
  EXPECT_NEAR(
      advice.sharings[0].foretold,
      [] {
        double sum = 0.0;
        for (const auto& [layer, head] : test::cells(test::kStudyLayers, test::kStudyHeads))
          sum += curve_of(1, layer, head).losses[1];
        return sum;
      }(),
      1e-9);
  EXPECT_EQ(advice.sharings[2].name, "the table learnt from the policy tried");
  EXPECT_THAT(head_advice_markdown(advice),
              HasSubstr("under keydiff, with which the table is tried"));
}

TEST_F(HeadAdviceOfStudy, EveryFormatHoldsTheSameTable) {
  const HeadAdvice advice = advise(request());
  ModelInfo model{.num_layers = test::kStudyLayers,
                  .num_heads = test::kStudyHeads,
                  .num_kv_heads = test::kStudyHeads};
  const HeadTable csv = read_head_table(file("t.csv", head_table_text(advice, "t.csv")), model);
  const HeadTable npy = read_head_table(file("t.npy", head_table_text(advice, "t.npy")), model);
  const auto json = nlohmann::json::parse(head_table_text(advice, "t.json"));
  ASSERT_EQ(csv.size(), 6U);
  double parts = 0.0;
  for (std::size_t h = 0; h < 6; ++h) {
    EXPECT_NEAR(csv[h], advice.table[h] / 50.0, 1e-8);
    EXPECT_EQ(npy[h], advice.table[h] / advice.entries);
    const std::string name = std::to_string(h / 2) + "-" + std::to_string(h % 2);
    parts += json.at(name).at(0).get<double>();
    EXPECT_NEAR(json.at(name).at(0).get<double>() * 6.0, csv[h], 1e-8);
  }
  EXPECT_NEAR(parts, 1.0, 1e-9);
  const PolicySpec spec = parse_policy(head_table_spec(advice, "a \"b\".csv"));
  EXPECT_EQ(spec.find("headbudgets")->word("file"), "a \"b\".csv");
  const auto all = nlohmann::json::parse(head_advice_json(advice));
  EXPECT_EQ(all.at("heads").size(), 6U);
  EXPECT_EQ(all.at("sharings").at(1).at("name"), "this table");

  model.num_layers = 4;  // a table for other shapes
  EXPECT_THAT(test::error_of<FileError>(
                  [&] { read_head_table(file("u.npy", head_table_text(advice, "t.npy")), model); }),
              HasSubstr("of 3 layers and 2 heads, but the model has 4 layers"));
}

TEST_F(HeadAdviceOfStudy, WhatCannotBeIsSaidInOneLine) {
  HeadRequest asked = request();
  asked.measure = "answer_residual_part";
  EXPECT_THAT(refusal(asked), HasSubstr("losses by head in it: perturbation_l1"));
  asked.measure = "retained_mass";
  EXPECT_THAT(refusal(asked), HasSubstr("retained_mass is no loss of a head in a replay"));
  asked = request();
  asked.policy = "tova";
  EXPECT_THAT(refusal(asked), HasSubstr("it has h2o, keydiff, snapkv+critical"));
  asked = request();
  for (const char* budget : {"10%", "5%", "100%", "20", "900"}) {
    asked.budget = budget;
    EXPECT_THAT(refusal(asked), HasSubstr("the study has budgets of 20, 50, 100 entries"));
  }
  for (const char* budget : {"12MB", "25%bytes"}) {
    asked.budget = budget;
    EXPECT_THAT(refusal(asked), HasSubstr("is in bytes, and the study's budgets are entries"));
  }
  asked = request();
  asked.floor = 1.0;
  EXPECT_THAT(refusal(asked), HasSubstr("--floor"));
  asked = request();
  asked.block = "64";
  EXPECT_THAT(refusal(asked), HasSubstr("no block 64; it has capture"));
  require_one_model(path_);
  Database(path_, Database::Access::write)
      .run(R"(INSERT INTO prompts (stored) VALUES ('{"fingerprint":"v1:a"}'), ('{}'))");
  require_one_model(path_);
  Database(path_, Database::Access::write)
      .run(R"(INSERT INTO prompts (stored) VALUES ('{"fingerprint":"v1:b"}'))");
  EXPECT_THAT(test::error_of<FileError>([&] { require_one_model(path_); }),
              HasSubstr("has prompts of 2 models"));
  Database(path_, Database::Access::write)
      .run("DELETE FROM head_values WHERE layer = 2 AND item < 9");
  EXPECT_THAT(refusal(request()), HasSubstr("t0.h5 has 4 heads with values and t1.h5 has 6"));
}

}  // namespace
}  // namespace kvloupe
