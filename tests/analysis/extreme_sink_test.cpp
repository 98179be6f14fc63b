// A query that rests on token 0: 1 − 1e-9 of its attention there, exactly 1 in float32, or so
// nearly that float32 has no numbers above 0 for the others. The attention of the others is small,
// but policies and measures have nothing else to compare once the sink is kept, or gone.

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "analysis/measure/measure_catalog.h"
#include "analysis/metric/joint_error.h"
#include "analysis/metric/perturbation.h"
#include "analysis/metric/sink.h"
#include "analysis/metric/two_stage_bound.h"
#include "analysis/policy/kit/value_aware_score.h"
#include "analysis/replay/layer_replay.h"
#include "analysis/replay/replay_json.h"
#include "tests/naive/compare_replay.h"
#include "tests/support/made_layer.h"
#include "tests/support/record_values.h"
#include "tests/support/resting_states.h"

namespace kvloupe {
namespace {

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
    largest_kept = std::max<long double>(largest_kept, logits[static_cast<std::size_t>(i)]);
  }
  long double sum = 0, sum_kept = 0;
  for (std::size_t i = 0; i < n; ++i) sum += all[i] = std::exp(logits[i] - largest);
  for (const int i : kept) {
    const auto at = static_cast<std::size_t>(i);
    sum_kept += cut[at] = std::exp(logits[at] - largest_kept);
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
    for (int i = 0; i < n; ++i) logits[static_cast<std::size_t>(i)] = std::sin(5.0F + i);
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
class Resting : public testing::TestWithParam<float> {
 protected:
  Resting() {
    options_.layers = 1;
    options_.query_heads = 4;
    options_.heads = 2;
    options_.head_dim = 8;
    options_.hidden_size = 12;
    options_.prompt_length = 64;
    options_.generated = 4;
    options_.seed = 5;
    made_ = test::make_synthetic_states(options_);
    test::rest_on_first(made_, GetParam());
    states_ = test::made_layer(made_, 0);
  }
  Replay run(const std::string& spec, int budget, int block) const {
    const PolicySpec policy = parse_policy(spec);
    Replay result;
    result.policy = policy.text();
    result.budget = budget;
    result.block = block;
    result.blocks = make_blocks(options_.prompt_length, options_.generated, block);
    LayerContext context{.model = made_.model,
                         .attention = made_.run.attention_scale,
                         .budget = budget,
                         .output_weights = states_.output_weights};
    result.heads = replay_layer({states_, result.blocks, policy, context, true}, test::unwatched);
    return result;
  }

  test::SyntheticTraceOptions options_;
  test::SyntheticStates made_;
  LayerStates states_;
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
        const Replay fast = run(spec, budget, block);
        const naive::Comparison found =
            naive::compare(fast, 0, states_, made_.model, made_.run.attention_scale);
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
  std::string json;
  write_replay_json(whole, "trace.h5", {}, [&](std::string_view part) { json += part; });
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
