// Layers that attend in their own way: soft caps, sink logits, windows, scales and rotations. The
// attention of every policy and its measures beside their naive twins: replay_naive_test.

#include <gmock/gmock.h>

#include <cmath>

#include "analysis/error.h"
#include "analysis/metric/attention.h"
#include "analysis/metric/attention_map.h"
#include "analysis/metric/joint_error.h"
#include "analysis/metric/perturbation.h"
#include "analysis/metric/rope.h"
#include "analysis/metric/sink.h"
#include "analysis/metric/two_stage_bound.h"
#include "analysis/replay/follow.h"
#include "analysis/replay/replay.h"
#include "analysis/trace/layer_kinds_text.h"
#include "tests/support/random_matrix.h"
#include "tests/support/synthetic_trace.h"
#include "tests/support/temporary_folder.h"

namespace kvloupe {
namespace {

using test::random_matrix;

using testing::HasSubstr;

/// Softmax rows by the formula, in double: softcap and sink of the rule, causal, no window.
Eigen::MatrixXd naive_rows(const Matrix& q, const Matrix& k, const LogitRule& rule) {
  Eigen::MatrixXd a = Eigen::MatrixXd::Zero(q.rows(), k.rows());
  for (Eigen::Index r = 0; r < q.rows(); ++r) {
    const Eigen::Index seen = k.rows() - q.rows() + r + 1;
    double sum = rule.has_sink() ? std::exp(rule.sink) : 0.0;
    for (Eigen::Index i = 0; i < seen; ++i) {
      double x = 0.0;
      for (Eigen::Index c = 0; c < q.cols(); ++c) {
        x += static_cast<double>(q(r, c)) * static_cast<double>(k(i, c));
      }
      x *= rule.scale;
      if (rule.softcap > 0.0) x = rule.softcap * std::tanh(x / rule.softcap);
      sum += a(r, i) = std::exp(x);
    }
    a.row(r) /= sum;
  }
  return a;
}

const std::vector<LogitRule>& rules() {
  static const std::vector<LogitRule> all = {{0.4, 0.0, LogitRule::kNoSink},
                                             {0.4, 1.5, LogitRule::kNoSink},
                                             {0.4, 0.0, 2.0},
                                             {0.4, 0.0, -3.0},
                                             {0.4, 2.5, 1.0},
                                             {0.1, 0.0, 30.0}};
  return all;
}

TEST(LayerAttention, EveryFunctionFollowsTheRule) {
  const Matrix k = random_matrix(150, 12, 1) * 2.0F;
  const Matrix q = random_matrix(150, 12, 2);
  for (const LogitRule& rule : rules()) {
    SCOPED_TRACE(testing::Message() << "cap " << rule.softcap << ", sink " << rule.sink);
    const Eigen::MatrixXd expected = naive_rows(q, k, rule);
    const Matrix rows = attention_rows(view(q), view(k), rule, 0);
    EXPECT_LT((rows.cast<double>() - expected).cwiseAbs().maxCoeff(), 1e-6);
    const auto logsumexp = attention_logsumexp(view(q), view(k), rule, 0, test::unwatched);
    const auto sums = attention_column_sums(view(q), view(k), rule, 0, test::unwatched);
    const auto entropy = attention_entropy(view(q), view(k), rule, 0, test::unwatched);
    for (int r = 0; r < 150; ++r) {
      // A query's own entry says what the whole row was divided by.
      const double logit = rule.logit(static_cast<double>(q.row(r).dot(k.row(r))));
      EXPECT_NEAR(std::exp(logit - logsumexp[static_cast<std::size_t>(r)]), expected(r, r), 1e-5);
      double h = 0.0, entries = 0.0;
      for (int i = 0; i <= r; ++i) {
        if (expected(r, i) > 0.0) h -= expected(r, i) * std::log(expected(r, i));
        entries += expected(r, i);
      }
      if (const double rest = 1.0 - entries; rule.has_sink() && rest > 0.0)
        h -= rest * std::log(rest);
      EXPECT_NEAR(entropy[static_cast<std::size_t>(r)], h, 1e-4) << r;
      EXPECT_NEAR(sums[static_cast<std::size_t>(r)], expected.col(r).sum(), 1e-4);
    }
    AttentionWindow window{0, 150, 0, 150, 150, 150};
    const Matrix map = attention_map(view(q), view(k), rule, logsumexp, window, test::unwatched);
    for (int r = 0; r < 150; ++r) {
      for (int i = 0; i <= r; ++i) EXPECT_NEAR(map(r, i), expected(r, i), 1e-5);
    }
  }
}

// A sink logit is an entry of value 0 that always stays: the same problem with that entry written
// out has the same numbers, by the formulas without a sink.
TEST(LayerAttention, MeasuresCountASinkAsAnEntryThatStays) {
  const int n = 40, d = 6, hidden = 9;
  const Matrix values = random_matrix(n, d, 3);
  const Matrix weights = random_matrix(d, hidden, 4);
  const OutputWeight output(weights);
  Matrix more_values = Matrix::Zero(n + 1, d);
  more_values.bottomRows(n) = values;
  for (const double sink : {-2.0, 0.5, 4.0, 40.0}) {
    SCOPED_TRACE(sink);
    const Matrix random = random_matrix(1, n, 5);
    std::vector<float> logits(random.data(), random.data() + n);
    std::vector<float> more_logits = logits;
    more_logits.insert(more_logits.begin(), static_cast<float>(sink));
    std::vector<std::int32_t> kept, more_kept = {0}, gone, more_gone;
    std::vector<std::int32_t> one, two, more_one = {0}, more_two;
    for (std::int32_t i = 0; i < n; ++i) {
      (i % 3 == 0 ? gone : kept).push_back(i);
      (i % 3 == 0 ? more_gone : more_kept).push_back(i + 1);
      if (i % 3 == 0) continue;
      (i % 3 == 1 ? one : two).push_back(i);
      (i % 3 == 1 ? more_one : more_two).push_back(i + 1);
    }
    std::vector<float> l1, l2;
    for (int i = 0; i < n; ++i) {
      const Eigen::RowVectorXf out = values.row(i) * weights;
      l1.push_back(out.lpNorm<1>());
      l2.push_back(out.norm());
    }
    std::vector<float> more_l1 = l1, more_l2 = l2;
    more_l1.insert(more_l1.begin(), 0.0F);
    more_l2.insert(more_l2.begin(), 0.0F);
    const QueryHeadMetrics with =
        output_perturbation(logits, kept, view(values), &output, l1, l2, sink);
    const QueryHeadMetrics out =
        output_perturbation(more_logits, more_kept, view(more_values), &output, more_l1, more_l2);
    EXPECT_NEAR(with.retained_mass, out.retained_mass, 1e-12);
    EXPECT_NEAR(with.perturbation_l1, out.perturbation_l1, 1e-9);
    EXPECT_NEAR(with.bound_l1, out.bound_l1, 1e-9);
    EXPECT_NEAR(with.perturbation_l2, out.perturbation_l2, 1e-9);
    EXPECT_NEAR(with.bound_l2, out.bound_l2, 1e-9);
    EXPECT_NEAR(with.head_error_l2, out.head_error_l2, 1e-9);
    EXPECT_LE(with.perturbation_l1, with.bound_l1 * (1 + 1e-9));

    const std::vector<double> attention = softmax(logits, sink);
    const std::vector<double> more_attention = softmax(more_logits);
    const double share = sink_share(logits, sink);
    EXPECT_NEAR(share, more_attention.front(), 1e-12);
    const TwoStageBound bound = two_stage_bound(attention, l1, one, two, share);
    const TwoStageBound more_bound = two_stage_bound(more_attention, more_l1, more_one, more_two);
    EXPECT_NEAR(bound.mass, more_bound.mass, 1e-12);
    EXPECT_NEAR(bound.bound, more_bound.bound, 1e-9);
    EXPECT_NEAR(joint_eviction_error(attention, view(values), gone, share),
                joint_eviction_error(more_attention, view(more_values), more_gone), 1e-9);
  }
}

class LayerAttentionTrace : public testing::Test {
 protected:
  static test::SyntheticTraceOptions options() {
    test::SyntheticTraceOptions options{.layers = 3,
                                        .head_dim = 8,
                                        .prompt_length = 60,
                                        .generated = 4,
                                        .block = 16,
                                        .logsumexp = false};
    return options;
  }
  /// The states are the same whatever the layers say of themselves.
  std::unique_ptr<Trace> trace(const std::string& name, test::SyntheticTraceOptions wanted) const {
    test::write_synthetic_trace(folder_ / name, wanted);
    return std::make_unique<Trace>(folder_ / name);
  }
  static Replay replayed(const Trace& trace, const std::string& policy) {
    ReplayRequest request{.policy = parse_policy(policy), .budget = 8, .measures = {"all"}};
    return replay(trace, request, test::unwatched);
  }
  test::TemporaryFolder folder_;
};

TEST_F(LayerAttentionTrace, WhatIsWrittenIsRead) {
  test::SyntheticTraceOptions wanted = options();
  wanted.sliding_window = 20;
  wanted.layer_attributes.resize(3);
  wanted.layer_attributes[1].attention_softcap = 30.0;
  wanted.layer_attributes[1].sliding_window = 0;
  wanted.layer_attributes[1].rope_theta = 123.0;
  wanted.layer_attributes[1].rope_scaling = R"({"rope_type":"linear","factor":2.0})";
  wanted.layer_attributes[2].attention_scale = 0.25;
  wanted.layer_attributes[2].sliding_window = 7;
  wanted.layer_attributes[2].sink_logits = {0.5F, -1.0F, 2.0F, 3.0F};
  const auto open = trace("a.h5", wanted);
  EXPECT_EQ(open->window(0), 20);
  EXPECT_EQ(open->window(1), 0);
  EXPECT_EQ(open->window(2), 7);
  EXPECT_EQ(open->narrowest_reach(), Reach(7));
  EXPECT_FALSE(open->same_reach());
  EXPECT_EQ(window_text(*open),
            "window of 7 tokens in 1 of 3 layers, window of 20 tokens in 1 of 3 layers");
  EXPECT_TRUE(open->attention(0).of(1).plain());
  EXPECT_EQ(open->attention(0).scale, open->run().attention_scale);
  EXPECT_EQ(open->attention(1).softcap, 30.0);
  EXPECT_EQ(open->attention(2).scale, 0.25);
  EXPECT_EQ(open->attention(2).of(2).sink, 2.0);
  EXPECT_EQ(open->layer_model(0).rope_theta, open->model().rope_theta);
  EXPECT_EQ(open->layer_model(1).rope_theta, 123.0);
  EXPECT_THAT(open->layer_model(1).rope_scaling, HasSubstr("linear"));
  EXPECT_THROW(open->window(3), UsageError);
}

TEST_F(LayerAttentionTrace, ALayerReplaysAsInATraceWhoseLayersAreAllLikeIt) {
  test::SyntheticTraceOptions mixed = options();
  mixed.layer_attributes.resize(3);
  mixed.layer_attributes[1].sliding_window = 9;
  mixed.layer_attributes[2].attention_softcap = 1.0;
  mixed.layer_attributes[2].sink_logits = {0.5F, -1.0F, 2.0F, 3.0F};
  const auto open = trace("mixed.h5", mixed);
  EXPECT_THAT(
      replayed(*open, "h2o").notes,
      testing::Contains(testing::StartsWith("window of 9 tokens in 1 of 3 layers: entries")));
  EXPECT_EQ(window_note_in_brief(replayed(*open, "h2o").notes.back()),
            "window of 9 tokens in 1 of 3 layers");
  EXPECT_EQ(window_note_in_brief("h2o protects more: see there"), "");
  for (int layer = 0; layer < 3; ++layer) {
    SCOPED_TRACE(layer);
    test::SyntheticTraceOptions same = options();
    same.layer_attributes.assign(3, mixed.layer_attributes[static_cast<std::size_t>(layer)]);
    const auto alike = trace("same" + std::to_string(layer) + ".h5", same);
    for (const std::string policy :
         {"h2o", "snapkv(8)", "tova+recent(10%)", "oracle(4)", "keydiff+critical", "h2o+caote"}) {
      SCOPED_TRACE(policy);
      const Replay a = replayed(*open, policy), b = replayed(*alike, policy);
      for (int head = 0; head < 2; ++head) {
        const HeadReplay &one = *a.find(layer, head), &other = *b.find(layer, head);
        EXPECT_EQ(one.reach, Reach(layer == 1 ? 9 : 0));
        EXPECT_EQ(one.evicted_at, other.evicted_at);
        for (std::size_t step = 0; step < one.steps.size(); ++step) {
          const auto& of = one.steps[step].query_heads;
          for (std::size_t q = 0; q < of.size(); ++q) {
            const auto& values = other.steps[step].query_heads[q].values;
            for (std::size_t i = 0; i < values.size(); ++i) {
              if (std::isnan(values[i])) {
                EXPECT_TRUE(std::isnan(of[q].values[i]));
              } else {
                EXPECT_EQ(of[q].values[i], values[i]);
              }
            }
          }
        }
      }
    }
    EXPECT_EQ(sink_strength(*open, layer, 1, 0, test::unwatched),
              sink_strength(*alike, layer, 1, 0, test::unwatched));
    const auto reads = token_reads(*open, {{3, 4}}, test::unwatched);
    const auto reads_alike = token_reads(*alike, {{3, 4}}, test::unwatched);
    EXPECT_EQ(reads[static_cast<std::size_t>(layer) * 2].later,
              reads_alike[static_cast<std::size_t>(layer) * 2].later);
  }
}

TEST_F(LayerAttentionTrace, ASinkLogitTakesAttentionFromEveryEntry) {
  test::SyntheticTraceOptions with = options();
  with.layer_attributes.resize(3);
  for (LayerAttributes& layer : with.layer_attributes) layer.sink_logits.assign(4, 50.0F);
  const auto open = trace("sinks.h5", with);
  EXPECT_LT(sink_strength(*open, 0, 0, 0, test::unwatched), 1e-6F);
  EXPECT_GT(sink_strength(*trace("plain.h5", options()), 0, 0, 0, test::unwatched), 0.2F);
}

TEST_F(LayerAttentionTrace, ALayerWithoutRotationHasItsKeysBeforeRope) {
  test::SyntheticTraceOptions wanted = options();
  wanted.layer_attributes.resize(3);
  wanted.layer_attributes[1].rope_theta = 0.0;
  const auto open = trace("none.h5", wanted);
  std::vector<float> key = {1, 2, 3, 4, 5, 6, 7, 8};
  const std::vector<float> before = key;
  Rope(open->layer_model(1)).turn(std::span(key), 17.0);
  EXPECT_EQ(key, before);
  Rope(open->layer_model(0)).turn(std::span(key), 17.0);
  EXPECT_NE(key, before);
}

TEST(LayerAttentionRope, OnlyTheFirstCoordinatesTurn) {
  ModelInfo model{.head_dim = 8, .rotary_dim = 4};
  ModelInfo small = model;
  small.head_dim = 4;
  small.rotary_dim = 0;
  std::vector<float> key = {1, 2, 3, 4, 5, 6, 7, 8}, part = {1, 2, 3, 4};
  Rope(model).turn(std::span(key), 5.0);
  Rope(small).turn(std::span(part), 5.0);
  for (std::size_t c = 0; c < 8; ++c) {
    EXPECT_EQ(key[c], c < 4 ? part[c] : static_cast<float>(c + 1)) << c;
  }
  EXPECT_EQ(Rope(model).pairs(), 2U);
}

}  // namespace
}  // namespace kvloupe
