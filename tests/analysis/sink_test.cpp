// The error without a sink, and the effect of averaging on one, beside plain loops in double
// precision.

#include "analysis/math/sink.h"
#include "analysis/math/bounds.h"
#include "analysis/math/perturbation.h"
#include "analysis/policy/kit/value_aware_score.h"
#include "analysis/replay/measure/measure_catalog.h"
#include "tests/support/record_values.h"
#include "tests/support/resting_states.h"
#include "tests/support/test.h"

namespace kvloupe {
namespace {

/// Logits of a query against tokens 0 to that query; −infinity for those beyond its window.
std::vector<double> naive_logits(const test::SyntheticStates& states, int layer, int query_head,
                                 int query) {
  const Matrix& q = states.query[layer][query_head];
  const Matrix& k = states.key[layer][states.model.head_of(query_head)];
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
  const Matrix& v = states.value[layer][states.model.head_of(query_head)];
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
  return test::SyntheticTraceOptions{.sliding_window = window};
}

struct SinkTest : ::testing::Test {
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
    for (const auto& [l, h] : test::cells(2, 4)) {
      double expected = 0.0;
      for (const int query : queries) expected += naive_error(states, l, h, token, query) / 3.0;
      EXPECT_NEAR(errors(l, h), expected, 1e-4 * (1.0 + expected)) << l << " " << h;
      EXPECT_NEAR(dropped_token_error(trace, l, h, token, queries), expected,
                  1e-5 * (1.0 + expected));
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
      mean += naive_softmax(naive_logits(states, 1, 1, query))[token];
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
  for (const auto& [q, k] : test::cells(n, n)) {
    const bool seen = k <= q && q - k < GetParam();
    EXPECT_EQ(std::isnan(mean.logits(q, k)), !seen);
    EXPECT_EQ(std::isnan(mean.probabilities(q, k)), !seen);
    if (!seen) continue;
    double probability = 0.0;
    for (int h = 0; h < 4; ++h) {
      probability += naive_softmax(naive_logits(states, 1, h, q))[k] / 4.0;
    }
    EXPECT_NEAR(mean.probabilities(q, k), probability, 1e-5);
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
          logit += logits[k] / 8.0;
          probability += naive_softmax(logits)[k] / 8.0;
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

// A query that rests on token 0: 1 − 1e-9 of its attention there, exactly 1 in float32, or so
// nearly that float32 has no numbers above 0 for the others. The attention of the others is small,
// but policies and measures have nothing else to compare once the sink is kept, or gone.

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

TEST(Tightness, IsUndefinedWhereThereIsNoBoundToReach) {
  EXPECT_DOUBLE_EQ(tightness(0.25, 0.5), 0.5);
  EXPECT_DOUBLE_EQ(tightness(0.0, 0.5), 0.0);
  EXPECT_DOUBLE_EQ(tightness(3e-40, 6e-40), 0.5);  // little is not nothing
  EXPECT_TRUE(std::isnan(tightness(0.0, 0.0)));
  EXPECT_TRUE(std::isnan(tightness(1e-17, 0.0)));  // was infinite
  EXPECT_TRUE(std::isnan(tightness(1e-320, 3e-320)));
  EXPECT_TRUE(std::isnan(tightness(0.5, kNan)));
  EXPECT_TRUE(std::isnan(tightness(0.5, kInfinity)));
}

/// ℒ and θ of theorem 3.3 (L1 and L2), in long double, as the formula has them.
struct Exact {
  long double perturbation[2] = {0, 0}, bound[2] = {0, 0}, mass = 0;
};
Exact exact(const std::vector<float>& logits, const std::vector<std::int32_t>& kept,
            const Matrix& values, const Matrix& weight) {
  const std::size_t n = logits.size();
  std::vector<long double> all(n), cut(n, 0.0L);
  long double largest = -1e30L, largest_kept = -1e30L;
  for (const float logit : logits) largest = std::max<long double>(largest, logit);
  for (const int i : kept) {
    largest_kept = std::max<long double>(largest_kept, logits[i]);
  }
  long double sum = 0, sum_kept = 0;
  for (std::size_t i = 0; i < n; ++i) sum += all[i] = std::exp(logits[i] - largest);
  for (const int i : kept) {
    sum_kept += cut[i] = std::exp(logits[i] - largest_kept);
  }
  Exact result;
  for (auto& a : all) a /= sum;
  for (auto& a : cut) a /= sum_kept;
  // A' − A = A'(1 − S) of a kept entry: the formula's own difference would cancel here, too.
  long double gone = 0;
  for (std::size_t i = 0; i < n; ++i) gone += cut[i] > 0 ? 0 : all[i];
  result.mass = 1 - gone;
  for (Eigen::Index column = 0; column < weight.cols(); ++column) {
    long double change = 0;
    for (std::size_t i = 0; i < n; ++i) {
      long double output = 0;
      for (Eigen::Index c = 0; c < values.cols(); ++c) {
        output += static_cast<long double>(values(static_cast<Eigen::Index>(i), c)) *
                  static_cast<long double>(weight(c, column));
      }
      change += (cut[i] > 0 ? -cut[i] * gone : all[i]) * output;
    }
    result.perturbation[0] += std::abs(change);
    result.perturbation[1] += change * change;
  }
  result.perturbation[1] = std::sqrt(result.perturbation[1]);
  for (std::size_t i = 0; i < n; ++i) {
    long double l1 = 0, l2 = 0;
    for (Eigen::Index column = 0; column < weight.cols(); ++column) {
      long double output = 0;
      for (Eigen::Index c = 0; c < values.cols(); ++c) {
        output += static_cast<long double>(values(static_cast<Eigen::Index>(i), c)) *
                  static_cast<long double>(weight(c, column));
      }
      l1 += std::abs(output);
      l2 += output * output;
    }
    const long double share = cut[i] > 0 ? cut[i] * gone : all[i];
    result.bound[0] += share * l1;
    result.bound[1] += share * std::sqrt(l2);
  }
  return result;
}

Matrix made(Eigen::Index rows, Eigen::Index columns, float phase) {
  Matrix result(rows, columns);
  for (Eigen::Index i = 0; i < result.size(); ++i) {
    result.data()[i] = std::sin(phase + 1.7F * static_cast<float>(i));
  }
  return result;
}

TEST(ExtremeSink, PerturbationAndBoundKeepTheirDigitsHoweverLittleIsEvicted) {
  constexpr int n = 12;
  const Matrix values = made(n, 5, 0.3F), weight = made(5, 7, 2.0F);
  const OutputWeight stored(weight);
  const Matrix outputs = values * weight;
  std::vector<float> l1, l2;
  for (Eigen::Index i = 0; i < n; ++i) {
    l1.push_back(outputs.row(i).lpNorm<1>());
    l2.push_back(outputs.row(i).norm());
  }
  const std::vector<std::int32_t> with_sink{0, 3, 4, 7}, without{3, 4, 7};
  for (const float gap : {0.0F, 5.0F, 25.0F, 60.0F, 120.0F, 300.0F}) {
    std::vector<float> logits(n);
    for (int i = 0; i < n; ++i) logits[i] = std::sin(5.0F + i);
    logits[0] = gap;
    for (const auto& kept : {with_sink, without}) {
      const QueryHeadMetrics fast =
          output_perturbation(logits, kept, view(values), &stored, l1, l2);
      const Exact wanted = exact(logits, kept, values, weight);
      const auto near = [&](double value, long double expected, const char* what) {
        EXPECT_NEAR(value / static_cast<double>(expected), 1.0, 1e-6)
            << what << ", gap " << gap << ", kept " << kept.size();
      };
      near(fast.perturbation_l1, wanted.perturbation[0], "L1");
      near(fast.perturbation_l2, wanted.perturbation[1], "L2");
      near(fast.bound_l1, wanted.bound[0], "bound L1");
      near(fast.bound_l2, wanted.bound[1], "bound L2");
      near(tightness(fast.perturbation_l1, fast.bound_l1), wanted.perturbation[0] / wanted.bound[0],
           "tightness");
      EXPECT_LE(fast.retained_mass, 1.0);
      EXPECT_NEAR(fast.retained_mass, static_cast<double>(wanted.mass), 1e-12);
      EXPECT_LE(tightness(fast.perturbation_l2, fast.bound_l2), 1.0 + 1e-6);
    }
  }
  // Beyond what a double tells, what is evicted had no attention at all: nothing is lost, and of
  // nothing there is no share.
  std::vector<float> logits(n, 0.0F);
  logits[0] = 900.0F;
  const QueryHeadMetrics none =
      output_perturbation(logits, with_sink, view(values), &stored, l1, l2);
  EXPECT_EQ(none.perturbation_l1, 0.0);
  EXPECT_EQ(none.bound_l1, 0.0);
  EXPECT_EQ(none.retained_mass, 1.0);
  EXPECT_TRUE(std::isnan(tightness(none.perturbation_l1, none.bound_l1)));
  // And where the sink went, the others have all of it, in the shares they have among themselves.
  const QueryHeadMetrics all = output_perturbation(logits, without, view(values), &stored, l1, l2);
  const Eigen::RowVectorXd rest =
      (outputs.row(3) + outputs.row(4) + outputs.row(7)).cast<double>() / 3;
  EXPECT_NEAR(all.perturbation_l1, (outputs.row(0).cast<double>() - rest).lpNorm<1>(), 1e-5);
}

TEST(ExtremeSink, TheTwoStageBoundIsNoDifferenceOfLargeNumbers) {
  // Stage one has the sink: all but 1e-12. Two entries of the second stage, one evicted.
  const std::vector<double> attention{1.0 - 1e-12, 4e-13, 5e-13, 1e-13};
  const std::vector<float> norms{0.5F, 3.0F, 2.0F, 4.0F};
  const std::vector<std::int32_t> one{0}, two{1, 2};
  const TwoStageBound bound = two_stage_bound(attention, norms, one, two);
  // evicted + (1 − σ)/σ · kept, 1 − σ = 1e-12.
  const double kept = 0.5 * attention[0] + 3.0 * 4e-13 + 2.0 * 5e-13;
  EXPECT_NEAR(bound.bound / (4.0 * 1e-13 + 1e-12 * kept), 1.0, 1e-9);
  // Norms of stage two are taken for the least, 0.5: 4e-13 · 2.5 and 5e-13 · 1.5 more.
  EXPECT_NEAR(bound.relaxed / (4e-13 + 4e-13 * 2.5 + 5e-13 * 1.5 + 1e-12 * 0.5), 1.0, 1e-9);
  EXPECT_LE(bound.bound, bound.relaxed);
}

TEST(ExtremeSink, LeavingOneOutIsFiniteUnlessNothingElseIsThere) {
  const Matrix values = made(3, 2, 1.0F);
  const double tiny = 1e-30;
  const std::vector<double> h{1.0, tiny, 3 * tiny};  // 1 − h_0 is 0 in double
  const std::vector<double> c = caote_scores(h, view(values));
  const Eigen::RowVectorXd rest =
      (values.row(1).cast<double>() + 3.0 * values.row(2).cast<double>()) / 4.0;
  EXPECT_NEAR(c[0], (rest - values.row(0).cast<double>()).norm(), 1e-12);
  EXPECT_NEAR(c[1] / (tiny * (values.row(0) - values.row(1)).cast<double>().norm()), 1.0, 1e-6);
  const std::vector<std::int32_t> sink{0};
  EXPECT_NEAR(joint_eviction_error(h, view(values), sink), c[0], 1e-12);
  const std::vector<double> alone{1.0, 0.0, 0.0};
  EXPECT_EQ(caote_scores(alone, view(values))[0], kInfinity);
  for (const double score : fastcaote_scores(alone, view(values)))
    EXPECT_TRUE(std::isfinite(score));
}

/// Replays of a layer whose queries rest on token 0, by the engine and by its twin.
struct Resting : testing::TestWithParam<float>, test::MadeLayerReplays {
  Resting()
      : MadeLayerReplays({.layers = 1,
                          .head_dim = 8,
                          .hidden_size = 12,
                          .prompt_length = 64,
                          .generated = 4,
                          .seed = 5}) {
    test::rest_on_first(made_, GetParam());
    states_ = test::made_layer(made_, 0);
  }
};

// 1 − 1e-9 of the attention, 1 − 1e-16, and more than float32 can tell apart.
INSTANTIATE_TEST_SUITE_P(Gaps, Resting, testing::Values(25.0F, 40.0F, 120.0F));

/// Beyond what float32 tells apart, all but the sink have no attention and any choice among them is
/// as good: there is nothing to agree about.
class RestingWithinFloat : public Resting {};
INSTANTIATE_TEST_SUITE_P(Gaps, RestingWithinFloat, testing::Values(25.0F, 40.0F));

TEST_P(RestingWithinFloat, PoliciesAgreeWithTheirTwins) {
  // Those that keep the sink and those that drop it, over every policy that reads attention.
  for (const char* spec :
       {"tova", "tova(layer)", "h2o", "h2o(visible)", "snapkv(8)", "snapkv(8,pool=max)", "keydiff",
        "keynorm", "random+recent(20%)", "h2o+caote", "tova+fastcaote", "snapkv(8)+caote+adakv",
        "h2o+critical", "tova+critical(0.25)+adakv", "h2o+kvmerger(auto)", "keynorm+kvmerger",
        "h2o+cam", "keynorm+cam", "h2o+adakv(0.5,mode=mix)"}) {
    for (const int budget : {6, 20}) {
      for (const int block : {7, 64}) {
        const naive::Comparison found = compared(run(spec, budget, block));
        EXPECT_EQ(found.failure, "");
        EXPECT_LE(found.near_ties, 2) << spec << " budget " << budget << " block " << block;
      }
    }
  }
}

TEST_P(Resting, EveryMeasureIsANumberOrSaidToBeUnknown) {
  for (const char* spec : {"tova", "keynorm", "h2o+critical", "keynorm+critical", "h2o+caote"}) {
    const Replay replay = run(spec, 12, 16);
    for (const HeadReplay& head : replay.heads) {
      for (const StepRecord& record : head.steps) {
        for (const Measure& measure : all_measures()) {
          if (!applies(measure, parse_policy(spec))) continue;
          const double value = measure_at(measure, record);
          // Infinite only where the definition says so: a first stage without any attention.
          if (measure.info->name.rfind("bound_stage_one", 0) != 0) {
            EXPECT_FALSE(std::isinf(value)) << spec << " " << measure.info->name;
          }
          if (measure.info->share && std::isfinite(value)) {
            EXPECT_GE(value, 0.0) << spec << " " << measure.info->name;
            EXPECT_LE(value, 1.0 + 1e-5) << spec << " " << measure.info->name;
          }
        }
      }
    }
  }
}

TEST(Tightness, IsLeftOutOfAMeanWhereItIsUndefinedAndNotWhereTheBoundIsUnknown) {
  HeadReplay head;
  head.steps.resize(2);
  for (StepRecord& step : head.steps) {
    step.query_heads.resize(2);
    step.cache_size = 10;
    step.retained = 5;
  }
  for (StepRecord& step : head.steps) {
    for (QueryHeadRecord& record : step.query_heads) test::set_value(record, "bound_l1", 0.0);
  }
  test::set_value(head.steps[0].query_heads[0], "bound_l1", 4.0);  // the other three: 0 of 0
  test::set_value(head.steps[0].query_heads[0], "tightness_l1", 0.25);
  test::set_value(head.steps[1].query_heads[0], "bound_l1", 4.0);
  test::set_value(head.steps[1].query_heads[0], "tightness_l1", 0.75);
  const Measure& measure = require_measure("tightness_l1");
  EXPECT_DOUBLE_EQ(measure_at(measure, head.steps[0]), 0.25);
  EXPECT_DOUBLE_EQ(measure_of(measure, head), 0.5);
  EXPECT_TRUE(std::isnan(measure_at(require_measure("tightness_l2"), head.steps[0])));
  test::set_value(head.steps[1].query_heads[1], "bound_l1", kNan);  // merged
  EXPECT_TRUE(std::isnan(measure_of(measure, head)));
}

TEST_P(Resting, OfWhatIsKeptWholeTightnessIsNull) {
  const Replay whole = run("tova", 100, 64);
  for (const HeadReplay& head : whole.heads) {
    for (const StepRecord& record : head.steps) {
      for (int i = 0; i < 2; ++i) {
        EXPECT_TRUE(std::isnan(measure_at(require_measure("tightness_l1"), record, i)));
        EXPECT_EQ(measure_at(require_measure("bound_l1"), record, i), 0.0);
        EXPECT_EQ(measure_at(require_measure("perturbation_l1"), record, i), 0.0);
      }
    }
  }
  const std::string json = test::json_of(whole);
  EXPECT_NE(json.find("\"tightness_l1\":null"), std::string::npos) << json.substr(0, 2000);
  EXPECT_EQ(json.find(":inf"), std::string::npos);
  EXPECT_EQ(json.find(":nan"), std::string::npos);
  // Dropping the sink loses nearly everything, and the bound is there to be compared with.
  const Replay cut = run("keynorm", 6, 64);
  for (const HeadReplay& head : cut.heads) {
    const double value = measure_at(require_measure("tightness_l1"), head.steps.front(), 0);
    EXPECT_GT(value, 0.0);
    EXPECT_LE(value, 1.0 + 1e-6);
  }
}

}  // namespace
}  // namespace kvloupe
