// Attention Matching by hand, against a twin in double precision, and what holds for its replays.

#include "analysis/math/attention_matching.h"
#include "analysis/policy/kit/seen_queries.h"
#include "tests/naive/naive_matching.h"
#include "tests/support/test.h"

namespace kvloupe {
namespace {

Matrix random_rows(std::mt19937& engine, int rows, int columns, float size = 1.0F) {
  std::normal_distribution<float> normal(0.0F, size);
  Matrix result(rows, columns);
  for (float& x : result.reshaped()) x = normal(engine);
  return result;
}

/// One head with one query head.
struct MatchingCase {
  Matrix queries, keys, values;
  LogitRule rule = 1.0;
  std::vector<float> biases = {};

  ReferenceAttention attention(double ridge = ReferenceAttention::kRidge) const {
    const std::vector<MatrixView> asked = {view(queries)};
    const std::vector<LogitRule> rules = {rule};
    return {asked, rules, view(keys), biases, ridge};
  }
  /// exp of the biases, in double.
  Eigen::VectorXd weights() const {
    Eigen::VectorXd result = Eigen::VectorXd::Ones(keys.rows());
    for (std::size_t j = 0; j < biases.size(); ++j) {
      result[static_cast<Eigen::Index>(j)] = std::exp(static_cast<double>(biases[j]));
    }
    return result;
  }
  /// E and what a sink adds, in double.
  std::pair<Eigen::MatrixXd, Eigen::VectorXd> exponentials() const {
    Eigen::MatrixXd logits = queries.cast<double>() * keys.cast<double>().transpose();
    logits = logits.unaryExpr([&](double product) { return rule.logit(product); });
    Eigen::VectorXd sinks = Eigen::VectorXd::Zero(logits.rows());
    for (Eigen::Index q = 0; q < logits.rows(); ++q) {
      for (std::size_t j = 0; j < biases.size(); ++j) {
        logits(q, static_cast<Eigen::Index>(j)) += static_cast<double>(biases[j]);
      }
      const double shift = std::max(logits.row(q).maxCoeff(), rule.sink);
      logits.row(q) = (logits.row(q).array() - shift).exp();
      sinks[q] = std::exp(rule.sink - shift);
    }
    return {logits, sinks};
  }
};

MatchingCase random_case(int queries, int entries, int d, unsigned seed) {
  std::mt19937 engine(seed);
  MatchingCase made{random_rows(engine, queries, d), random_rows(engine, entries, d),
                    random_rows(engine, entries, 5)};
  made.rule = 1.0 / std::sqrt(static_cast<double>(d));
  return made;
}

constexpr BiasFit kHighest{true, -3.0, 3.0, 2};
constexpr BiasFit kFree{true, -50.0, 50.0, 0};

TEST(AttentionMatching, ByHandTwoEqualKeysBecomeOneOfTwiceTheWeight) {
  // d = 1: keys 0, 0 and ln 3, queries 1 and 0. E: 1/3, 1/3, 1 of the first query (its largest
  // logit is ln 3); 1, 1, 1 of the second. Entries 0 and 2 stay: B = 2 and 1 fit both sums, where
  // nearly no ridge pulls them to 1.
  constexpr double kNoRidge = 1e-10;
  MatchingCase made;
  made.queries = Matrix(2, 1);
  made.queries << 1.0F, 0.0F;
  made.keys = Matrix(3, 1);
  made.keys << 0.0F, 0.0F, std::log(3.0F);
  made.values = Matrix(3, 2);
  made.values << 2.0F, 0.0F, 4.0F, 8.0F, 1.0F, 1.0F;
  const std::vector<std::int32_t> rows = {0, 2};
  const MatchedEntries matched = made.attention(kNoRidge).fit(rows, view(made.values), kFree);
  EXPECT_NEAR(matched.biases[0], std::log(2.0), 1e-5);
  EXPECT_NEAR(matched.biases[1], 0.0, 1e-5);
  // The value of the first becomes the mean of the two that it stands for.
  EXPECT_NEAR(matched.values(0, 0), 3.0, 1e-4);
  EXPECT_NEAR(matched.values(0, 1), 4.0, 1e-4);
  EXPECT_NEAR(matched.values(1, 0), 1.0, 1e-4);
  EXPECT_NEAR(matched.values(1, 1), 1.0, 1e-4);
  // Measures: attention 1/5, 1/5, 3/5 and 1/3 each.
  const std::vector<double> rms = made.attention().measure(KeyMeasure::rms);
  EXPECT_NEAR(rms[0], std::sqrt((1.0 / 25 + 1.0 / 9) / 2), 1e-6);
  EXPECT_NEAR(rms[2], std::sqrt((9.0 / 25 + 1.0 / 9) / 2), 1e-6);
  EXPECT_NEAR(made.attention().measure(KeyMeasure::mean)[2], (0.6 + 1.0 / 3) / 2, 1e-6);
  EXPECT_NEAR(made.attention().measure(KeyMeasure::max)[2], 0.6, 1e-6);
  // Pursuit: the products with the sums 5/3 and 3 are 5/9 + 3 and 5/3 + 3: entry 2 is first; with
  // weight (5/3 + 3)/2 it leaves −2/3 and 2/3, whose product with the others is 4/9: of equals the
  // earlier is picked.
  const std::vector<double> picks = made.attention(kNoRidge).pursuit({2, 1, 1, -7.0, kFree});
  EXPECT_EQ(picks[2], 3.0);
  EXPECT_EQ(picks[0], 2.0);
  EXPECT_LT(picks[1], 1.0);
}

TEST(AttentionMatching, BiasesAndValuesAreThoseOfTheTwin) {
  for (const unsigned seed : {1U, 2U, 3U, 4U}) {
    MatchingCase made = random_case(60, 24, 6, seed);
    if (seed == 2) made.rule = LogitRule(0.4, 3.0, LogitRule::kNoSink);
    if (seed == 3) made.rule = LogitRule(0.4, 0.0, 1.5);
    if (seed == 4) {
      std::mt19937 engine(9);
      const Matrix given = random_rows(engine, 24, 1);
      made.biases.assign(given.data(), given.data() + given.size());
    }
    const auto [E, sinks] = made.exponentials();
    const Eigen::VectorXd sums = E.rowwise().sum();
    const std::vector<std::int32_t> rows = {0, 3, 5, 6, 11, 17, 20, 23};
    const std::vector<int> columns(rows.begin(), rows.end());
    const Eigen::VectorXd before = made.weights()(columns);
    const Eigen::MatrixXd M = E(Eigen::all, columns) * before.cwiseInverse().asDiagonal();
    for (const BiasFit& bias :
         {kHighest, kFree, BiasFit{true, std::log(1e-12), 7.0, 0}, BiasFit{true, -0.5, 0.5, 200}}) {
      const naive::MatchingBounds bounds{std::exp(bias.least), std::exp(bias.largest), bias.steps};
      const Eigen::VectorXd B = naive::matched_weights(
          M, sums, before, bounds, ReferenceAttention::kRidge * naive::mean_square(E));
      const MatchedEntries matched = made.attention().fit(rows, view(made.values), bias);
      for (std::size_t i = 0; i < rows.size(); ++i) {
        const auto at = static_cast<Eigen::Index>(i);
        EXPECT_NEAR(std::exp(static_cast<double>(matched.biases[i])), B[at], 1e-3 * (1 + B[at]));
      }
      Eigen::MatrixXd X = M * B.asDiagonal();
      const Eigen::VectorXd shares = X.rowwise().sum() + sinks;
      X = shares.cwiseInverse().asDiagonal() * X;
      const Eigen::MatrixXd Y =
          (sums + sinks).cwiseInverse().asDiagonal() * (E * made.values.cast<double>());
      const Eigen::MatrixXd own = made.values.cast<double>()(columns, Eigen::all);
      const double pull = ReferenceAttention::kRidge * naive::mean_square(X);
      const Eigen::MatrixXd C = naive::least_squares(X, Y, own, pull);
      EXPECT_LT((matched.values.cast<double>() - C).norm(), 1e-4 * C.norm()) << seed;
      // At the minimum the slope is 0.
      EXPECT_LT((X.transpose() * (X * C - Y) + pull * (C - own)).norm(), 1e-9);
    }
  }
}

TEST(AttentionMatching, MoreStepsComeToTheConstrainedMinimum) {
  const MatchingCase made = random_case(60, 24, 6, 5);
  const auto [E, sinks] = made.exponentials();
  const Eigen::VectorXd sums = E.rowwise().sum();
  const std::vector<std::int32_t> rows = {1, 2, 9, 10, 12, 22};
  const Eigen::MatrixXd M = E(Eigen::all, std::vector<int>(rows.begin(), rows.end()));
  double before = 1e300;
  Eigen::VectorXd B;
  for (const int steps : {0, 2, 20, 20000}) {
    B = made.attention().weights(rows, {true, -1.0, 1.0, steps});
    const double error = (M * B - sums).squaredNorm();
    EXPECT_LE(error, before * (1 + 1e-6)) << steps;
    before = error;
  }
  // At the minimum the slope is 0 inside the bounds and points out of them at a bound.
  const Eigen::VectorXd slope = M.transpose() * (M * B - sums);
  for (Eigen::Index i = 0; i < B.size(); ++i) {
    if (B[i] < std::exp(-1.0) + 1e-9)
      EXPECT_GE(slope[i], -1e-3);
    else if (B[i] > std::exp(1.0) - 1e-9)
      EXPECT_LE(slope[i], 1e-3);
    else
      EXPECT_NEAR(slope[i], 0.0, 1e-3);
  }
}

TEST(AttentionMatching, PursuitPicksAsItsTwin) {
  for (const char* spec :
       {"attentionmatching(keys=omp)", "attentionmatching(keys=omp,pick=4)",
        "attentionmatching(keys=omp,pick=4,refit=2)", "attentionmatching(keys=omp,drop=none)",
        "attentionmatching(keys=omp,drop=-1.5)"}) {
    const SpecPart part = parse_policy(spec).score();
    const double* drop = std::get_if<double>(&part.argument("drop"));
    for (const unsigned seed : {1U, 2U, 3U}) {
      MatchingCase made = random_case(80, 30, 8, seed);
      if (seed == 3) made.biases.assign(30, 0.0F);
      for (std::size_t j = 0; j < made.biases.size(); j += 3) made.biases[j] = 1.5F;
      const PursuitRule rule{12,
                             part.count("pick"),
                             part.count("refit"),
                             drop != nullptr ? *drop : -HUGE_VAL,
                             {true, std::log(1e-12), 7.0, 0}};
      const std::vector<double> fast = made.attention(part.number("ridge")).pursuit(rule);
      const std::vector<double> twin =
          naive::pursued(made.exponentials().first, made.weights(), part, 12);
      int picked = 0;
      for (std::size_t j = 0; j < fast.size(); ++j) {
        if (fast[j] >= 1.0 || twin[j] >= 1.0) {
          EXPECT_EQ(fast[j], twin[j]) << spec << " " << seed;
          ++picked;
        }
      }
      EXPECT_EQ(picked, 12) << spec;
    }
  }
}

TEST(AttentionMatching, AllEntriesMatchThemselves) {
  const MatchingCase made = random_case(80, 20, 8, 7);
  std::vector<std::int32_t> rows(20);
  for (int i = 0; i < 20; ++i) rows[i] = i;
  const MatchedEntries matched = made.attention().fit(rows, view(made.values), kHighest);
  for (const float bias : matched.biases) EXPECT_NEAR(bias, 0.0F, 1e-3F);
  EXPECT_LT((matched.values - made.values).norm(), 1e-3F * made.values.norm());
}

/// What the queries' outputs lose, by hand: Σ_q ‖A_S C − A V‖², with weights B.
double lost(const MatchingCase& made, const std::vector<int>& rows, const Eigen::VectorXd& B,
            const Eigen::MatrixXd& C) {
  const auto [E, sinks] = made.exponentials();
  const Eigen::MatrixXd all =
      (E.rowwise().sum() + sinks).cwiseInverse().asDiagonal() * (E * made.values.cast<double>());
  const Eigen::MatrixXd M = E(Eigen::all, rows) * B.asDiagonal();
  return ((M.rowwise().sum() + sinks).cwiseInverse().asDiagonal() * (M * C) - all).squaredNorm();
}

TEST(AttentionMatching, LosesLessThanTheSameEntriesAsTheyWere) {
  for (const unsigned seed : {1U, 2U, 3U, 4U, 5U}) {
    const MatchingCase made = random_case(60, 24, 6, seed);
    const std::vector<std::int32_t> rows = {0, 3, 5, 6, 11, 17, 20, 23};
    const std::vector<int> columns(rows.begin(), rows.end());
    const MatchedEntries matched = made.attention().fit(rows, view(made.values), kHighest);
    Eigen::VectorXd B(8);
    for (int i = 0; i < 8; ++i) B[i] = std::exp(static_cast<double>(matched.biases[i]));
    const Eigen::MatrixXd own = made.values.cast<double>()(columns, Eigen::all);
    const double kept = lost(made, columns, Eigen::VectorXd::Ones(8), own);
    const double refitted = lost(made, columns, B, matched.values.cast<double>());
    EXPECT_LT(refitted, kept) << seed;
    EXPECT_LT(refitted, lost(made, columns, B, own)) << seed;
  }
}

// What was matched once has a bias; a later match starts from there.
TEST(AttentionMatching, MatchingAgainWithoutLossChangesNothing) {
  MatchingCase made = random_case(60, 24, 6, 11);
  const std::vector<std::int32_t> rows = {0, 3, 5, 6, 11, 17, 20, 23};
  const std::vector<int> columns(rows.begin(), rows.end());
  const MatchedEntries first = made.attention().fit(rows, view(made.values), kHighest);
  ASSERT_GT(*std::max_element(first.biases.begin(), first.biases.end()), 0.5F);
  made.keys = Matrix(made.keys(columns, Eigen::all));
  made.values = first.values;
  made.biases = first.biases;
  const std::vector<std::int32_t> all = {0, 1, 2, 3, 4, 5, 6, 7};
  const MatchedEntries again = made.attention().fit(all, view(made.values), kHighest);
  for (std::size_t i = 0; i < all.size(); ++i) {
    EXPECT_NEAR(again.biases[i], first.biases[i], 1e-4F);
  }
  EXPECT_LT((again.values - first.values).norm(), 1e-4F * first.values.norm());
}

TEST(AttentionMatching, WhatQueriesDoNotTellStaysAsItWas) {
  // One query, four entries: with a strong pull they keep their values, with none they do not.
  MatchingCase made = random_case(1, 9, 6, 8);
  const std::vector<std::int32_t> rows = {1, 4, 5, 8};
  const Matrix before = made.values(std::vector<int>(rows.begin(), rows.end()), Eigen::all);
  const MatchedEntries free = made.attention(1e-10).fit(rows, view(made.values), kHighest);
  const MatchedEntries held = made.attention(1e6).fit(rows, view(made.values), kHighest);
  EXPECT_LT((held.values - before).norm(), 1e-4F * before.norm());
  EXPECT_GT((free.values - before).norm(), 1e-2F * before.norm());
  // An entry that no query sees keeps its value and, before the projected steps, its weight.
  made.keys.row(5) = -1e4F * made.queries.row(0);
  const MatchedEntries unseen = made.attention().fit(rows, view(made.values), kFree);
  EXPECT_EQ(unseen.values.row(2), before.row(2));
  EXPECT_EQ(unseen.biases[2], 0.0F);
}

TEST(AttentionMatching, EqualAndUnseenEntriesDoNotSpoilTheFit) {
  MatchingCase made = random_case(40, 12, 4, 3);
  made.keys.row(5) = made.keys.row(4);  // nothing tells them apart
  made.keys.row(7) *= 0.0F;
  made.keys.row(8) = -200.0F * made.queries.colwise().sum();  // nearly no attention
  const std::vector<std::int32_t> rows = {1, 4, 5, 7, 8, 9};
  const MatchedEntries matched = made.attention().fit(rows, view(made.values), kHighest);
  EXPECT_TRUE(matched.values.allFinite());
  for (const float bias : matched.biases) {
    EXPECT_GE(bias, -3.0001F);
    EXPECT_LE(bias, 3.0001F);
  }
}

TEST(ReferenceQueriesOfALayer, HoldEverySecondFourthAndSoOn) {
  ModelInfo model{.num_heads = 2, .num_kv_heads = 1, .head_dim = 1};
  for (const int most : {1, 2, 3, 5, 8, 1000}) {
    ReferenceQueries held(model, 2 * most);
    Matrix first(1, 1), later(12, 1);
    first << 0.0F;
    for (int i = 0; i < 12; ++i) later(i, 0) = static_cast<float>(i + 1);
    held.take(0, first);
    held.take(1, first);
    held.take(0, later);
    held.take(1, later);
    int stride = 1;
    while ((13 + stride - 1) / stride > most) stride *= 2;
    const std::vector<MatrixView> rows = held.of(0);
    const std::vector<MatrixView> latest = held.of(0, 0.3);
    const auto last =
        static_cast<Eigen::Index>(std::ceil(0.3 * static_cast<double>(rows[0].rows())));
    ASSERT_EQ(latest[0].rows(), last);
    EXPECT_EQ(latest[1], rows[1].bottomRows(last));
    ASSERT_EQ(rows.size(), 2U);
    ASSERT_EQ(rows[0].rows(), (13 + stride - 1) / stride) << most;
    for (Eigen::Index i = 0; i < rows[0].rows(); ++i) {
      EXPECT_EQ(rows[1](i, 0), static_cast<float>(i * stride)) << most;
    }
  }
}

}  // namespace
}  // namespace kvloupe
