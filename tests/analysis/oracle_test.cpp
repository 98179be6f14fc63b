// The oracle: on a few entries by hand, and against brute force.

#include "analysis/policy/kit/greedy_removal.h"
#include "tests/naive/removal_error.h"
#include "tests/support/test.h"

namespace kvloupe {
namespace {

/// One query with these weights, one-dimensional values, and the full output as its target.
std::vector<JudgingQuery> judge(const std::vector<double>& weights, const Eigen::MatrixXd& values) {
  JudgingQuery query;
  query.logits.resize(static_cast<Eigen::Index>(weights.size()));
  double sum = 0.0;
  query.target = Eigen::VectorXd::Zero(1);
  for (std::size_t i = 0; i < weights.size(); ++i) {
    const auto row = static_cast<Eigen::Index>(i);
    query.logits[row] = std::log(weights[i]);
    query.target += weights[i] * values.row(row).transpose();
    sum += weights[i];
  }
  query.target /= sum;
  return {query};
}

TEST(Oracle, EachTimeTheOneThatIsMissedLeastGoes) {
  // Weights 4 2 1 1, values 0 4 8 2: output (8 + 8 + 2)/8 = 2.25. Without 0: 18/4 = 4.5, an error
  // of 2.25; without 1: 10/6, 0.58; without 2: 10/7, 0.82; without 3: 16/7, 0.04: 3 goes. Then
  // without 0: 16/3, 3.1; without 1: 8/5, 0.65; without 2: 8/6, 0.92: 1 goes. Then without 0:
  // 8, 5.75; without 2: 0, 2.25: 2 goes; the last one stays.
  Eigen::MatrixXd values(4, 1);
  values << 0, 4, 8, 2;
  EXPECT_THAT(
      greedy_removal_order(judge({4, 2, 1, 1}, values), values, {true, true, true, true}, 4),
      ElementsAre(3, 1, 2));
  // Protected entries never go.
  EXPECT_THAT(
      greedy_removal_order(judge({4, 2, 1, 1}, values), values, {true, true, true, false}, 4),
      ElementsAre(1, 2, 0));
  // With room for two the first two go; of the rest 2 would be missed less than 0.
  EXPECT_THAT(
      greedy_removal_order(judge({4, 2, 1, 1}, values), values, {true, true, true, true}, 2),
      ElementsAre(3, 1, 2, 0));
  // With room for all, by what each alone would be missed: 0.04, 0.58, 0.82, 2.25.
  EXPECT_THAT(
      greedy_removal_order(judge({4, 2, 1, 1}, values), values, {true, true, true, true}, 0),
      ElementsAre(3, 1, 2, 0));
}

TEST(Oracle, OfEqualsTheEarlierGoes) {
  const Eigen::MatrixXd values = Eigen::MatrixXd::Constant(4, 1, 3.0);
  EXPECT_THAT(
      greedy_removal_order(judge({1, 1, 1, 1}, values), values, {true, true, true, true}, 4),
      ElementsAre(0, 1, 2));
  const Eigen::MatrixXd one = Eigen::MatrixXd::Constant(1, 1, 3.0);
  EXPECT_TRUE(greedy_removal_order(judge({1}, one), one, {true}, 1).empty());
}

TEST(Oracle, KeepsItsPrecisionNextToPureSinks) {
  // Logits tens apart: one entry holds all but 1e-17 of a query's mass, and once it has gone the
  // next one does.
  std::mt19937 random(6);
  std::normal_distribution<double> normal;
  for (int round = 0; round < 300; ++round) {
    const int n = 3 + static_cast<int>(random() % 8);
    const int kept = static_cast<int>(random() % 3);
    const Eigen::MatrixXd values =
        Eigen::MatrixXd::NullaryExpr(n, 3, [&] { return normal(random); });
    std::vector<JudgingQuery> queries(1 + random() % 3);
    for (JudgingQuery& query : queries) {
      query.logits = Eigen::VectorXd::NullaryExpr(n, [&] { return 25.0 * normal(random); });
      query.kept_logits = Eigen::VectorXd::NullaryExpr(kept, [&] { return 25.0 * normal(random); });
      query.kept_values = Eigen::MatrixXd::NullaryExpr(kept, 3, [&] { return normal(random); });
      query.target = Eigen::VectorXd::NullaryExpr(3, [&] { return normal(random); });
    }
    const std::vector<bool> removable(static_cast<std::size_t>(n), true);
    const std::vector<int> order =
        greedy_removal_order(queries, values, removable, removable.size());
    ASSERT_EQ(order.size(), static_cast<std::size_t>(kept > 0 ? n : n - 1));
    naive::expect_each_removal_is_the_least(queries, values, order);
  }
}

class OracleOfAWindow : public testing::TestWithParam<int> {};

TEST_P(OracleOfAWindow, EqualsBruteForce) {
  const int window = GetParam();
  for (const int heads : {1, 2}) {
    test::MadeLayerReplays made({.layers = 1,
                                 .query_heads = 2,
                                 .heads = heads,
                                 .head_dim = 6,
                                 .hidden_size = 8,
                                 .prompt_length = 24,
                                 .generated = 2,
                                 .sliding_window = window,
                                 .seed = 5});
    made.metrics_ = false;
    long decisions = 0;
    for (const char* spec : {"oracle(4)", "oracle(3)+recent(2)+sinks(1)", "oracle(100)"}) {
      for (const int budget : {1, 5, 12}) {
        for (const int block : {1, 8, 24}) {
          const naive::Comparison found = made.compared(made.run(spec, budget, block));
          ASSERT_EQ(found.failure, "");
          ASSERT_EQ(found.near_ties, 0);
          decisions += found.decisions;
        }
      }
    }
    if (window != 1) {
      EXPECT_GT(decisions, window == 0 ? 1000 : 150);
    }
  }
}

// Windows for 26 tokens: one, below the blocks of 8, not a multiple of them, all but one.
INSTANTIATE_TEST_SUITE_P(Windows, OracleOfAWindow, testing::Values(0, 1, 5, 8, 11, 25));

TEST(Oracle, ARunningModelHasNoFuture) {
  LayerContext context;
  context.model.num_heads = context.model.num_kv_heads = 1;
  context.model.head_dim = 1;
  context.budget = 1;
  context.attention = 1.0;
  const auto policy = make_layer_policy(parse_policy("oracle"), context);
  const Matrix two = Matrix::Ones(2, 1);
  const std::vector<std::int32_t> tokens = {0, 1};
  StepView step;
  step.block = {0, 2};
  step.caches.push_back({tokens, view(two), view(two), {}});
  step.queries.push_back(view(two));
  EXPECT_THAT(test::error_of<WorkError>([&] { policy->step(step); }),
              HasSubstr("only a replay knows"));
}

}  // namespace
}  // namespace kvloupe
