// The error without a sink, and the effect of averaging on one, beside plain loops in double
// precision.

#include "analysis/metric/sink.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "analysis/error.h"
#include "tests/support/synthetic_trace.h"
#include "tests/support/temporary_folder.h"

namespace kvloupe {
namespace {

/// Logits of a query against tokens 0 to that query; −infinity for those beyond its window.
std::vector<double> naive_logits(const test::SyntheticStates& states, int layer, int query_head,
                                 int query) {
  const auto l = static_cast<std::size_t>(layer);
  const Matrix& q = states.query[l][static_cast<std::size_t>(query_head)];
  const Matrix& k = states.key[l][static_cast<std::size_t>(states.model.head_of(query_head))];
  std::vector<double> logits;
  for (int i = 0; i <= query; ++i) {
    double dot = 0.0;
    for (int j = 0; j < q.cols(); ++j)
      dot += static_cast<double>(q(query, j)) * static_cast<double>(k(i, j));
    const int window = states.model.sliding_window;
    const bool seen = window == 0 || query - i < window;
    logits.push_back(seen ? dot * static_cast<double>(states.run.attention_scale)
                          : -std::numeric_limits<double>::infinity());
  }
  return logits;
}

/// Softmax over all entries but one (−1: over all), 0 at that one.
std::vector<double> naive_softmax(std::vector<double> logits, int without = -1) {
  double sum = 0.0;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    logits[i] = static_cast<int>(i) == without ? 0.0 : std::exp(logits[i]);
    sum += logits[i];
  }
  for (double& weight : logits) weight /= sum;
  return logits;
}

double naive_error(const test::SyntheticStates& states, int layer, int query_head, int token,
                   int query) {
  const std::vector<double> logits = naive_logits(states, layer, query_head, query);
  const std::vector<double> with = naive_softmax(logits);
  const std::vector<double> without = naive_softmax(logits, token);
  const Matrix& v = states.value[static_cast<std::size_t>(layer)]
                                [static_cast<std::size_t>(states.model.head_of(query_head))];
  double lost = 0.0;
  double whole = 0.0;
  for (int j = 0; j < v.cols(); ++j) {
    double a = 0.0;
    double b = 0.0;
    for (std::size_t i = 0; i < with.size(); ++i) {
      a += with[i] * static_cast<double>(v(static_cast<int>(i), j));
      b += without[i] * static_cast<double>(v(static_cast<int>(i), j));
    }
    lost += (b - a) * (b - a);
    whole += a * a;
  }
  return std::sqrt(lost / whole);
}

test::SyntheticTraceOptions with_window(int window) {
  test::SyntheticTraceOptions options;
  options.sliding_window = window;
  return options;
}

class SinkTest : public ::testing::Test {
 protected:
  explicit SinkTest(int window = 0)
      : states(test::write_synthetic_trace(folder / "t.h5", with_window(window))) {}

  test::TemporaryFolder folder;
  test::SyntheticStates states;
  Trace trace{folder / "t.h5"};
  Progress progress;
};

TEST(Sinks, TheStrongestHeadIsThatOfTheLargestMeanOverItsQueryHeads) {
  Matrix strengths(2, 4);  // two layers of two heads, two query heads each
  strengths << 0.1F, 0.2F, 0.9F, 0.0F, 0.5F, 0.5F, 0.25F, 0.25F;
  const Matrix means = mean_of_query_heads(strengths, 2);
  Matrix expected(2, 2);
  expected << 0.15F, 0.45F, 0.5F, 0.25F;
  EXPECT_TRUE(means.isApprox(expected)) << means;
  EXPECT_EQ(strongest_sink(strengths, 2), (HeadIndex{1, 0}));
  EXPECT_EQ(strongest_sink(strengths, 4), (HeadIndex{0, 2})) << "each its own head";
  strengths(0, 2) = 0.96F;
  EXPECT_EQ(strongest_sink(strengths, 4), (HeadIndex{1, 0}))
      << "a head that rests wholly shows less";
  strengths.setConstant(1.0F);
  EXPECT_EQ(strongest_sink(strengths, 4), (HeadIndex{0, 0})) << "all do";
  EXPECT_THROW(mean_of_query_heads(strengths, 3), UsageError);
  EXPECT_THROW(mean_of_query_heads(strengths, 0), UsageError);
  EXPECT_THROW(strongest_sink(Matrix(0, 4), 2), UsageError);
}

TEST_F(SinkTest, ADroppedTokenCostsWhatItsRemovalChanges) {
  for (const int token : {0, 7, 50}) {
    const std::vector<int> queries{95, 60, 103};
    const Matrix errors = dropped_token_errors(trace, token, queries, progress);
    ASSERT_EQ(errors.rows(), 2);
    ASSERT_EQ(errors.cols(), 4);
    for (int l = 0; l < 2; ++l) {
      for (int h = 0; h < 4; ++h) {
        double expected = 0.0;
        for (const int query : queries) expected += naive_error(states, l, h, token, query) / 3.0;
        EXPECT_NEAR(errors(l, h), expected, 1e-4 * (1.0 + expected)) << l << " " << h;
        EXPECT_NEAR(dropped_token_error(trace, l, h, token, queries), expected,
                    1e-5 * (1.0 + expected));
      }
    }
  }
}

TEST_F(SinkTest, SomeQueriesEstimateWhatAllOfThemSay) {
  std::vector<int> all, some;
  for (int query = 0; query < trace.length(); ++query) {
    all.push_back(query);
    if (query % 3 == 0) some.push_back(query);
  }
  for (const int token : {0, 5}) {
    const float whole = sink_strength(trace, 1, 1, token, progress);
    EXPECT_NEAR(sink_strength(trace, 1, 1, token, all, progress), whole, 1e-5F);
    double mean = 0.0;
    int count = 0;
    for (const int query : some) {
      if (query <= token) continue;
      mean += naive_softmax(naive_logits(states, 1, 1, query))[static_cast<std::size_t>(token)];
      ++count;
    }
    EXPECT_NEAR(sink_strength(trace, 1, 1, token, some, progress), mean / count, 1e-5);
  }
  EXPECT_EQ(sink_strength(trace, 1, 1, 0, std::vector<int>{0}, progress), 0.0F);
  EXPECT_THROW(sink_strength(trace, 1, 1, 0, std::vector<int>{trace.length()}, progress),
               UsageError);
}

TEST_F(SinkTest, EdgesOfADrop) {
  const auto error = [&](int token, int query) {
    return dropped_token_error(trace, 0, 0, token, std::vector<int>{query});
  };
  EXPECT_EQ(error(9, 8), 0.0);           // not seen yet
  EXPECT_TRUE(std::isinf(error(0, 0)));  // nothing else to see
  // Two entries with attention a and 1 − a: without the first the output is the second's value.
  const std::vector<double> a = naive_softmax(naive_logits(states, 0, 0, 1));
  const Matrix& v = states.value[0][0];
  const Eigen::RowVectorXd v0 = v.row(0).cast<double>();
  const Eigen::RowVectorXd v1 = v.row(1).cast<double>();
  const Eigen::RowVectorXd output = a[0] * v0 + a[1] * v1;
  EXPECT_NEAR(error(0, 1), (v1 - output).norm() / output.norm(), 1e-5);
  EXPECT_THROW(error(104, 5), UsageError);
  EXPECT_THROW(error(0, 104), UsageError);
  EXPECT_THROW(dropped_token_error(trace, 0, 0, 0, {}), UsageError);
  progress.cancel();
  EXPECT_THROW(dropped_token_errors(trace, 0, std::vector<int>{95}, progress), Cancelled);
}

class WindowedSinkTest : public SinkTest, public ::testing::WithParamInterface<int> {
 protected:
  WindowedSinkTest() : SinkTest(GetParam()) {}
};

TEST_P(WindowedSinkTest, WhatAQueryDoesNotSeeCostsNothing) {
  const int window = GetParam();
  for (const int token : {0, 7, 50, 90}) {
    const std::vector<int> queries{95, 60, 51, 103};
    double expected = 0.0;
    for (const int query : queries) {
      if (query < token || query - token >= window) continue;
      expected += naive_error(states, 1, 2, token, query) / 4.0;
    }
    const double error = dropped_token_error(trace, 1, 2, token, queries);
    EXPECT_NEAR(error, expected, 1e-5 * (1.0 + expected)) << token;
    if (window <= 2 && token != 50) {
      EXPECT_EQ(error, 0.0);
    }
  }
  EXPECT_EQ(std::isinf(dropped_token_error(trace, 0, 1, 60, std::vector<int>{60})), window == 1);
}

TEST_P(WindowedSinkTest, AveragesLeaveOutWhatLiesBeyond) {
  constexpr int n = 24;
  const std::vector<int> layers{1};
  const MeanAttention mean = mean_attention(trace, layers, n, progress);
  for (int q = 0; q < n; ++q) {
    for (int k = 0; k < n; ++k) {
      const bool seen = k <= q && q - k < GetParam();
      EXPECT_EQ(std::isnan(mean.logits(q, k)), !seen);
      EXPECT_EQ(std::isnan(mean.probabilities(q, k)), !seen);
      if (!seen) continue;
      double probability = 0.0;
      for (int h = 0; h < 4; ++h) {
        const auto at = static_cast<std::size_t>(k);
        probability += naive_softmax(naive_logits(states, 1, h, q))[at] / 4.0;
      }
      EXPECT_NEAR(mean.probabilities(q, k), probability, 1e-5);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Windows, WindowedSinkTest, ::testing::Values(1, 2, 20, 103));

TEST_F(SinkTest, AveragesAreOfLogitsAndOfEachHeadsProbabilities) {
  constexpr int n = 12;
  const std::vector<int> layers{0, 1};
  const MeanAttention mean = mean_attention(trace, layers, n, progress);
  for (int q = 0; q < n; ++q) {
    double row_sum = 0.0;
    for (int k = 0; k < n; ++k) {
      if (k > q) {
        EXPECT_TRUE(std::isnan(mean.logits(q, k)));
        EXPECT_TRUE(std::isnan(mean.probabilities(q, k)));
        continue;
      }
      double logit = 0.0;
      double probability = 0.0;
      for (const int l : layers) {
        for (int h = 0; h < 4; ++h) {
          const std::vector<double> logits = naive_logits(states, l, h, q);
          logit += logits[static_cast<std::size_t>(k)] / 8.0;
          probability += naive_softmax(logits)[static_cast<std::size_t>(k)] / 8.0;
        }
      }
      EXPECT_NEAR(mean.logits(q, k), logit, 1e-4);
      EXPECT_NEAR(mean.probabilities(q, k), probability, 1e-5);
      row_sum += static_cast<double>(mean.probabilities(q, k));
    }
    EXPECT_NEAR(row_sum, 1.0, 1e-5);
  }
  EXPECT_THROW(mean_attention(trace, layers, 0, progress), UsageError);
  EXPECT_THROW(mean_attention(trace, layers, 105, progress), UsageError);
  EXPECT_THROW(mean_attention(trace, {}, 4, progress), UsageError);
}

}  // namespace
}  // namespace kvloupe
