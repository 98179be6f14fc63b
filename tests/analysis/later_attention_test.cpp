// Attention by distance, attention that comes later, and what policies lose of it, beside plain
// loops and by hand.

#include "analysis/math/later_attention.h"
#include "analysis/math/attention.h"
#include "analysis/math/distance_kernel.h"
#include "analysis/replay/attention_lost.h"
#include "analysis/replay/measure/measure_catalog.h"
#include "tests/naive/naive_geometry.h"
#include "tests/naive/naive_later.h"
#include "tests/naive/naive_roles.h"
#include "tests/support/test.h"

namespace kvloupe {
namespace {

struct Model {
  int heads = 2;
  int window = 0;
};

struct LaterAttentionTest : testing::TestWithParam<Model>, test::MadeTrace {
  LaterAttentionTest()
      : MadeTrace({.heads = GetParam().heads, .sliding_window = GetParam().window}) {}
  static std::vector<std::vector<double>> attention_of(const Trace& trace, int layer,
                                                       int query_head) {
    return naive::full_attention(trace.query(layer, query_head),
                                 trace.key(layer, trace.model().head_of(query_head)),
                                 trace.run().attention_scale, trace.window(layer));
  }
  /// Mean over the group of a head, of queries from `first` on: by token.
  static std::vector<double> later(const Trace& trace, int layer, int head, int first) {
    const int group = trace.model().group_size();
    std::vector<double> mean(static_cast<std::size_t>(trace.length()), 0.0);
    for (int q = head * group; q < (head + 1) * group; ++q) {
      const auto attention = attention_of(trace, layer, q);
      for (int token = 0; token < trace.length(); ++token) {
        mean[token] += naive::later_attention(attention, token, first) / group;
      }
    }
    return mean;
  }
};

TEST_P(LaterAttentionTest, TheKernelAndWhatIsMeasuredAreThoseOfThePlainLoops) {
  const Trace& trace = this->trace();
  for (int query_head = 0; query_head < 4; ++query_head) {
    for (const RopePairing pairing : {RopePairing::half, RopePairing::interleaved}) {
      ModelInfo model = trace.layer_model(1);
      model.rope_pairing = pairing;
      const Matrix queries = trace.query(1, query_head);
      const Matrix keys = trace.key(1, model.head_of(query_head));
      const double scale = trace.run().attention_scale;
      const int window = trace.window(1);
      const auto attention = attention_of(trace, 1, query_head);
      const naive::ByDistance twin =
          naive::by_distance(queries, keys, model, scale, window, attention);
      const DistanceKernel fast =
          distance_kernel(view(queries), view(keys), Rope(model), scale, window, test::unwatched);
      ASSERT_EQ(fast.logit.size(), twin.kernel.size());
      ASSERT_EQ(fast.logit.size(), window > 0 ? 23U : 104U);
      double sinks = 0.0;
      for (std::size_t q = 0; q < attention.size(); ++q) {
        for (int i = 0; i < kKernelSinks; ++i) sinks += attention[q][i];
      }
      EXPECT_NEAR(fast.to_sinks, sinks / 104.0, 1e-5);
      for (std::size_t i = 0; i < fast.logit.size(); ++i) {
        EXPECT_NEAR(fast.logit[i], twin.kernel[i], 1e-6) << i;
        EXPECT_NEAR(fast.attention[i], twin.kernel_attention[i], 1e-6) << i;
        EXPECT_NEAR(fast.mean_logit[i], twin.logit[i], 1e-4) << i;
        EXPECT_NEAR(fast.mean_attention[i], twin.attention[i], 1e-5) << i;
      }
      const double all =
          std::accumulate(fast.to_others.begin(), fast.to_others.end(), fast.to_sinks);
      EXPECT_NEAR(all, 1.0, 1e-5);
    }
  }
}

TEST_P(LaterAttentionTest, TokensReceiveWhatThePlainLoopsSay) {
  const Trace& trace = this->trace();
  std::vector<std::int32_t> some;
  for (std::int32_t token = 1; token < 60; token += token % 3 + 1) some.push_back(token);
  std::vector<std::int32_t> all(60);
  std::iota(all.begin(), all.end(), 0);
  for (int query_head = 0; query_head < 4; ++query_head) {
    const auto attention = attention_of(trace, 0, query_head);
    const Matrix queries = trace.query(0, query_head);
    const Matrix keys = trace.key(0, trace.model().head_of(query_head));
    const std::vector<float> sums = attention_logsumexp(trace, 0, query_head, test::unwatched);
    for (const auto& tokens : {some, all}) {
      for (const int first : {60, 77, 103}) {
        const std::vector<double> fast =
            later_attention(view(queries), view(keys), sums, tokens, first,
                            trace.attention(0).of(query_head), trace.window(0), test::unwatched);
        for (std::size_t i = 0; i < tokens.size(); ++i) {
          EXPECT_NEAR(fast[i], naive::later_attention(attention, tokens[i], first), 2e-6);
        }
      }
    }
    const std::vector<double> none =
        later_attention(view(queries), view(keys), sums, some, 104,
                        trace.attention(0).of(query_head), trace.window(0), test::unwatched);
    EXPECT_TRUE(std::isnan(none.front()));
  }
}

TEST_P(LaterAttentionTest, WhatPoliciesLoseIsTheLaterAttentionOfWhatTheyEvict) {
  const Trace& trace = this->trace();
  AttentionLostRequest request;
  for (const char* spec : {"keydiff", "h2o+recent(20%)", "snapkv(8)+adakv", "keynorm+sinks(2)"}) {
    request.policies.push_back(parse_policy(spec));
  }
  request.budgets = {5, 20, 45, 200};
  request.prefix = 60;
  long evictions = 0;
  for (const int sinks : {0, 4}) {
    request.sinks = sinks;
    const std::vector<AttentionLost> heads = attention_lost(trace, request, test::unwatched);
    ASSERT_EQ(heads.size(), static_cast<std::size_t>(2 * GetParam().heads));
    for (const AttentionLost& head : heads) {
      const std::vector<double> received = later(trace, head.layer, head.head, request.prefix);
      const LayerStates states = test::made_layer(states_, head.layer);
      for (const auto& [p, b] : test::cells(request.policies.size(), request.budgets.size())) {
        naive::NaiveReplay naive(states, trace.layer_model(head.layer), trace.attention(head.layer),
                                 head.layer, request.policies[p], request.budgets[b]);
        const naive::HeadStep step = naive.step({0, request.prefix})[head.head];
        int entries = 0, evicted = 0;
        double all = 0.0, lost = 0.0;
        for (const int token : step.cache) {
          if (token < sinks) continue;
          ++entries;
          all += received[token];
          if (step.retained.count(token) > 0) continue;
          ++evicted;
          lost += received[token];
        }
        const AttentionLost::Point& point = head.points[p][b];
        EXPECT_EQ(head.entries, entries);
        EXPECT_EQ(point.evicted, evicted);
        EXPECT_NEAR(point.lost, lost / all, 1e-5) << request.policies[p].text();
        EXPECT_GE(point.lost, head.least[point.evicted] - 1e-12);
        evictions += evicted;
      }
      EXPECT_EQ(head.least.size(), static_cast<std::size_t>(head.entries) + 1);
      EXPECT_EQ(head.least.front(), 0.0);
      EXPECT_NEAR(head.least.back(), 1.0, 1e-12);
      // Each step of the optimum loses at least as much as the one before.
      for (std::size_t i = 2; i < head.least.size(); ++i) {
        EXPECT_GE(head.least[i] - head.least[i - 1], head.least[i - 1] - head.least[i - 2] - 1e-12);
      }
    }
  }
  EXPECT_GT(evictions, 500);
}

TEST_P(LaterAttentionTest, ARandomChoiceLosesItsShareOnAverage) {
  const Trace& trace = this->trace();
  AttentionLostRequest request;
  for (int seed = 0; seed < 300; ++seed) {
    request.policies.push_back(parse_policy("random(seed=" + std::to_string(seed) + ")"));
  }
  request.budgets = {10};
  request.prefix = 60;
  request.layers = {0};
  for (const AttentionLost& head : attention_lost(trace, request, test::unwatched)) {
    double mean = 0.0;
    for (const auto& points : head.points) mean += points.front().lost / 300.0;
    const double share = 1.0 - 10.0 / head.entries;
    EXPECT_NEAR(mean, share, 0.05);
  }
}

TEST_P(LaterAttentionTest, ScoresAndLaterAttentionHaveTheRankCorrelationOfTheDefinition) {
  const Trace& trace = this->trace();
  const Measure& measure = require_measure("score_attention_correlation");
  long known = 0;
  for (const char* spec : {"h2o", "keydiff+recent(10%)", "snapkv(8)", "keynorm", "sink(4)"}) {
    ReplayRequest request{.policy = parse_policy(spec)};
    request.budget = 14;  // fewer than the window leaves
    request.block = 16;
    request.measures = {"score_attention_correlation"};
    request.scores_layer = 1;
    request.scores_head = 0;
    const Replay replay = kvloupe::replay(trace, request, test::unwatched);
    const HeadReplay& head = *replay.find(1, 0);
    for (int step = 0; step < static_cast<int>(head.steps.size()); ++step) {
      const double value = measure_at(measure, head.steps[step]);
      const int end = replay.blocks[step].end;
      const bool evicts = head.steps[step].retained < head.steps[step].cache_size;
      if (head.scores[step].empty() || !evicts || end == trace.length()) {
        EXPECT_TRUE(std::isnan(value)) << spec << " step " << step;
        continue;
      }
      const std::vector<double> received = later(trace, 1, 0, end);
      naive::Vector scores, attention, score_ranks, attention_ranks;
      for (const float score : head.scores[step]) scores.push_back(static_cast<double>(score));
      for (const std::int32_t token : replay.tokens_at(head, step)) {
        attention.push_back(received[token]);
      }
      for (std::size_t i = 0; i < scores.size(); ++i) {
        score_ranks.push_back(naive::rank_of(scores, i));
        attention_ranks.push_back(naive::rank_of(attention, i));
      }
      const double twin = naive::correlation(score_ranks, attention_ranks);
      if (std::isnan(twin)) {
        EXPECT_TRUE(std::isnan(value));
        continue;
      }
      ++known;
      // Attention that differs in its last digits may change places.
      EXPECT_NEAR(value, twin, 0.01) << spec << " step " << step;
    }
  }
  EXPECT_GT(known, 20);
}

INSTANTIATE_TEST_SUITE_P(Models, LaterAttentionTest,
                         testing::Values(Model{2}, Model{1}, Model{4}, Model{2, 23}));

TEST(DistanceKernel, OfStatesThatAreTheSameBeforeRopeIsWhatIsMeasured) {
  // One pair of coordinates, which turns by 1 per token: q = k = (2, 0), logits 0.5·4·cos Δ.
  ModelInfo model{.num_layers = 1, .num_heads = 1, .num_kv_heads = 1, .head_dim = 2};
  Matrix states(6, 2);
  for (int t = 0; t < 6; ++t) {
    states(t, 0) = 2.0F * std::cos(static_cast<float>(t));
    states(t, 1) = 2.0F * std::sin(static_cast<float>(t));
  }
  const DistanceKernel kernel =
      distance_kernel(view(states), view(states), Rope(model), 0.5, 0, test::unwatched);
  for (std::size_t distance = 0; distance < 6; ++distance) {
    const double expected = 2.0 * std::cos(static_cast<double>(distance));
    EXPECT_NEAR(kernel.logit[distance], expected, 1e-6);
    EXPECT_NEAR(kernel.mean_logit[distance], expected, 1e-5);
    EXPECT_NEAR(kernel.mean_attention[distance], kernel.attention[distance], 1e-6);
  }
  // The last query alone sees distance 5; it sees all six.
  double sum = 0.0;
  for (int distance = 0; distance < 6; ++distance) sum += std::exp(2.0 * std::cos(distance));
  EXPECT_NEAR(kernel.attention[5], std::exp(2.0 * std::cos(5.0)) / sum, 1e-6);
}

TEST(DistanceKernel, TheNeededWindowByHand) {
  DistanceKernel kernel;
  kernel.to_sinks = 0.5;
  kernel.to_others = {0.25, 0.125, 0.0625, 0.0625};
  const auto needed = [&](double share) { return needed_window(std::span(&kernel, 1), share); };
  EXPECT_EQ(needed(0.5), 0);
  EXPECT_EQ(needed(0.6), 1);
  EXPECT_EQ(needed(0.75), 1);
  EXPECT_EQ(needed(0.9), 3);
  EXPECT_EQ(needed(1.0), 4);
  // With a head that looks only at itself, half of all goes to distance 0.
  DistanceKernel local;
  local.to_others = {1.0, 0.0, 0.0, 0.0};
  const std::vector<DistanceKernel> both = {kernel, local};
  EXPECT_EQ(needed_window(both, 0.875), 1);
  EXPECT_EQ(needed_window(both, 0.9), 2);
}

TEST(LaterAttention, ByHand) {
  // Keys of zero: a query pays 1/(q + 1) to each token. Mean over queries 2 and 3: (1/3 + 1/4) / 2.
  const Matrix zeros = Matrix::Zero(4, 2);
  const std::vector<float> sums =
      attention_logsumexp(view(zeros), view(zeros), 1.0, 0, test::unwatched);
  const std::vector<std::int32_t> tokens = {0, 1};
  for (const double one :
       later_attention(view(zeros), view(zeros), sums, tokens, 2, 1.0, 0, test::unwatched)) {
    EXPECT_NEAR(one, 7.0 / 24.0, 1e-6);
  }
  // Through a window of 2, query 2 sees token 1 and query 3 sees neither.
  const std::vector<float> narrow =
      attention_logsumexp(view(zeros), view(zeros), 1.0, 2, test::unwatched);
  const std::vector<double> seen =
      later_attention(view(zeros), view(zeros), narrow, tokens, 2, 1.0, 2, test::unwatched);
  EXPECT_EQ(seen[0], 0.0);
  EXPECT_NEAR(seen[1], 0.25, 1e-6);
}

TEST(AttentionLostRequest, WhatMakesNoSenseIsRefused) {
  test::MadeTrace made_trace;
  const Trace& trace = made_trace.trace();
  Progress progress;
  AttentionLostRequest request;
  request.policies = {parse_policy("keydiff")};
  request.budgets = {10};
  for (const int prefix : {0, 104, -3}) {
    request.prefix = prefix;
    EXPECT_THROW(attention_lost(trace, request, progress), UsageError) << prefix;
  }
  request.prefix = 50;
  request.budgets = {0};
  EXPECT_THROW(attention_lost(trace, request, progress), UsageError);
  request.budgets = {10};
  request.policies = {parse_policy("keydiff+keep(\"90\")")};  // not in the prefix
  EXPECT_THROW(attention_lost(trace, request, progress), UsageError);
  progress.cancel();
  request.policies = {parse_policy("keydiff")};
  EXPECT_THROW(attention_lost(trace, request, progress), Cancelled);
}

}  // namespace
}  // namespace kvloupe
