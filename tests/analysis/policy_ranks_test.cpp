// Ranks of policies with a critical difference: a case worked by hand, a naive twin, published
// tables, and invariants.

#include "analysis/study/study_statistics.h"

#include <numbers>

#include "analysis/math/numeric/statistics.h"
#include "tests/naive/naive_ranks.h"
#include "tests/support/test.h"

namespace kvloupe {
namespace {

/// Shares of 14 prompts, with ties.
const std::vector<std::vector<double>> kShares = {
    {0.763, 0.768, 0.771, 0.798}, {0.599, 0.591, 0.590, 0.569}, {0.954, 0.971, 0.968, 0.967},
    {0.628, 0.661, 0.654, 0.657}, {0.882, 0.888, 0.886, 0.898}, {0.936, 0.931, 0.916, 0.931},
    {0.661, 0.668, 0.609, 0.685}, {0.583, 0.583, 0.563, 0.625}, {0.775, 0.838, 0.866, 0.875},
    {1.000, 1.000, 1.000, 1.000}, {0.940, 0.962, 0.965, 0.962}, {0.619, 0.666, 0.614, 0.669},
    {0.972, 0.981, 0.975, 0.975}, {0.957, 0.978, 0.946, 0.970}};

std::vector<double> flat(const std::vector<std::vector<double>>& rows) {
  std::vector<double> all;
  for (const std::vector<double>& row : rows) all.insert(all.end(), row.begin(), row.end());
  return all;
}

TEST(PolicyRanks, ACaseWorkedByHand) {
  // Ranks (1,2,3), (1,3,2), (2,1,3), (1,2,3): sums 5, 8 and 11.
  const PolicyRanks ranks =
      rank_policies(std::vector<double>{1, 2, 3, 1, 7, 2, 2, 1, 3, 10, 20, 30}, 3, false);
  EXPECT_EQ(ranks.prompts, 4);
  EXPECT_THAT(ranks.mean_ranks, ElementsAre(1.25, 2.0, 2.75));
  // 12/(N k (k + 1)) · Σ R² − 3 N (k + 1) = 0.25 · 210 − 48.
  EXPECT_DOUBLE_EQ(ranks.chi_squared, 4.5);
  EXPECT_DOUBLE_EQ(ranks.f, 3.0 * 4.5 / (8.0 - 4.5));
  // With two degrees of freedom above, the tail of F is (1 + 2x/d₂)^(−d₂/2).
  EXPECT_NEAR(ranks.p, std::pow(1.0 + ranks.f / 3.0, -3.0), 1e-12);
  EXPECT_NEAR(ranks.critical_difference, 2.343 * std::sqrt(3.0 * 4.0 / 24.0), 1e-3);
  // The other direction turns the ranks around.
  EXPECT_THAT(
      rank_policies(std::vector<double>{1, 2, 3, 1, 7, 2, 2, 1, 3, 10, 20, 30}, 3, true).mean_ranks,
      ElementsAre(2.75, 2.0, 1.25));
}

TEST(PolicyRanks, TheCriticalDifferenceIsThatOfDemsarsExample) {
  // Four classifiers on 14 data sets: 1.25 at 0.05 and 1.12 at 0.10 (Demšar 2006, section 3.2.2).
  EXPECT_NEAR(rank_policies(flat(kShares), 4, true).critical_difference, 1.25, 5e-3);
  EXPECT_NEAR(rank_policies(flat(kShares), 4, true, 0.1).critical_difference, 1.12, 5e-3);
}

TEST(PolicyRanks, TheNaiveTwinAgreesAlsoWithTies) {
  std::vector<std::vector<double>> ties;
  for (int i = 0; i < 23; ++i) {
    ties.emplace_back();
    for (int j = 0; j < 6; ++j) ties.back().push_back((i * 7 + j * j * 3) % 5);
  }
  for (const auto& rows : {kShares, ties}) {
    for (const bool larger : {true, false}) {
      const int policies = static_cast<int>(rows.front().size());
      const PolicyRanks ranks = rank_policies(flat(rows), policies, larger);
      const std::vector<double> expected = naive::mean_ranks(rows, larger);
      for (std::size_t j = 0; j < expected.size(); ++j)
        EXPECT_NEAR(ranks.mean_ranks[j], expected[j], 1e-12);
      EXPECT_NEAR(ranks.chi_squared, naive::friedman(rows, larger), 1e-9);
      EXPECT_NEAR(ranks.p,
                  naive::f_tail(ranks.f, policies - 1.0,
                                (policies - 1.0) * (static_cast<double>(rows.size()) - 1.0)),
                  1e-6);
    }
  }
}

TEST(PolicyRanks, FullAgreementAndNoneAreTheEnds) {
  const PolicyRanks same = rank_policies(std::vector<double>(12, 1.0), 3, true);
  EXPECT_THAT(same.mean_ranks, ElementsAre(2.0, 2.0, 2.0));
  EXPECT_EQ(same.chi_squared, 0.0);
  EXPECT_EQ(same.p, 1.0);
  const PolicyRanks agreed = rank_policies(std::vector<double>{1, 2, 3, 10, 20, 30}, 3, false);
  EXPECT_THAT(agreed.mean_ranks, ElementsAre(1.0, 2.0, 3.0));
  EXPECT_DOUBLE_EQ(agreed.chi_squared, 4.0);  // N (k − 1)
  EXPECT_TRUE(std::isinf(agreed.f));
  EXPECT_EQ(agreed.p, 0.0);
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_THROW(rank_policies(std::vector<double>{1, 2, nan, 1}, 2, true), std::invalid_argument);
  EXPECT_THROW(rank_policies(std::vector<double>{1, 2}, 2, true), std::invalid_argument);
  EXPECT_THROW(rank_policies(std::vector<double>{1, 2}, 1, true), std::invalid_argument);
}

TEST(Distributions, TheStudentizedRangeIsThatOfTheTables) {
  // Demšar 2006, table 5a: q_α / √2 for 2 to 10 policies.
  const double five[] = {1.960, 2.343, 2.569, 2.728, 2.850, 2.949, 3.031, 3.102, 3.164};
  const double ten[] = {1.645, 2.052, 2.291, 2.459, 2.589, 2.693, 2.780, 2.855, 2.920};
  for (int k = 2; k <= 10; ++k) {
    EXPECT_NEAR(studentized_range_quantile(0.95, k) / std::numbers::sqrt2, five[k - 2], 1.1e-3)
        << k;
    EXPECT_NEAR(studentized_range_quantile(0.90, k) / std::numbers::sqrt2, ten[k - 2], 1.1e-3) << k;
  }
  // For 20 means, from tables of the studentized range: 5.01.
  EXPECT_NEAR(studentized_range_quantile(0.95, 20), 5.01, 5e-3);
  // For two means the range is √2 |z|.
  for (const double z : {0.1, 1.0, 3.0})
    EXPECT_NEAR(studentized_range(z * std::numbers::sqrt2, 2), std::erf(z / std::numbers::sqrt2),
                1e-12);
  EXPECT_EQ(studentized_range(0.0, 5), 0.0);
  EXPECT_NEAR(studentized_range(30.0, 5), 1.0, 1e-12);
}

TEST(Distributions, TheTailOfFIsTheIntegralOfItsDensity) {
  constexpr double cases[][3] = {
      {0.3, 1, 5}, {2.85, 3, 39}, {1.0, 9, 9}, {7.5, 2, 400}, {12.0, 19, 57}};
  for (const auto& [x, d1, d2] : cases) {
    EXPECT_NEAR(f_tail(x, d1, d2), naive::f_tail(x, d1, d2), 1e-7) << x << " " << d1 << " " << d2;
  }
  EXPECT_NEAR(f_tail(2.845, 3, 39), 0.05, 2e-4);  // of the tables
  EXPECT_DOUBLE_EQ(f_tail(1.0, 7, 7), 0.5);
  EXPECT_EQ(f_tail(0.0, 2, 3), 1.0);
  EXPECT_EQ(f_tail(std::numeric_limits<double>::infinity(), 2, 3), 0.0);
}

}  // namespace
}  // namespace kvloupe
