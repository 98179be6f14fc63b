// The output of each head if lost tokens were back: against plain double loops.

#include "analysis/replay/restore.h"
#include "analysis/replay/follow_json.h"
#include "tests/naive/naive_measures.h"
#include "tests/support/test.h"

namespace kvloupe {
namespace {

struct RestoreTest : testing::Test, test::MadeTrace {
  RestoreTest() {
    options_ = {.prompt_length = 72, .generated = 5, .question = 9, .block = 16, .clusters = 6};
  }
  Replay run(const std::string& spec, int budget) {
    return MadeTrace::run(spec, budget, {.metrics = false});
  }
};

/// Σ of weights · values, times W_O.
std::vector<double> added(const naive::QueryHeadStates& head,
                          const std::map<int, double>& weights) {
  std::vector<double> output(static_cast<std::size_t>(head.model.hidden_size), 0.0);
  const OutputWeight& w = head.states.output_weights[head.query_head];
  for (const auto& [token, weight] : weights) {
    const std::vector<double> value = head.value(token);
    for (const auto& [column, c] : test::cells(output.size(), value.size())) {
      output[column] +=
          weight * value[c] *
          static_cast<double>(w(static_cast<Eigen::Index>(c), static_cast<Eigen::Index>(column)));
    }
  }
  return output;
}

TEST_F(RestoreTest, IsWhatPlainLoopsSay) {
  options_.layer_attributes.resize(2);
  options_.layer_attributes[0].sink_logits = {0.5F, -1.0F, 2.0F, 0.0F};
  options_.layer_attributes[1].sliding_window = 40;
  options_.logsumexp = false;
  const Replay replay = run("h2o", 20);
  const std::vector<int> tokens{20, 21, 22, 23, 50, 70};
  const std::vector<int> queries = restoring_queries(trace(), replay);
  ASSERT_EQ(queries, (std::vector<int>{71, 72, 73, 74, 75}));
  Eigen::MatrixXd effects(5, options_.hidden_size);
  for (Eigen::Index i = 0; i < effects.size(); ++i) effects(i) = std::sin(static_cast<double>(i));
  const std::vector<RestoredHead> heads =
      restored_heads(trace(), replay, tokens, {}, test::unwatched, &effects);
  ASSERT_EQ(heads.size(), replay.heads.size());
  double largest = 0.0;
  for (std::size_t i = 0; i < heads.size(); ++i) {
    const HeadReplay& head = replay.heads[i];
    const LayerStates states = load_layer_states(trace(), head.layer);
    const ModelInfo model = trace().layer_model(head.layer);
    double change = 0.0, effect = 0.0;
    for (std::size_t q = 0; q < queries.size(); ++q) {
      int step = 0;
      while (replay.blocks[step].end <= queries[q]) ++step;
      std::vector<int> there, back;
      for (int token = 0; token <= queries[q]; ++token) {
        if (model.sliding_window > 0 && queries[q] - token >= model.sliding_window) continue;
        const int left = head.evicted_at[token];
        const bool holds = left < 0 || left >= step;
        const bool named = std::count(tokens.begin(), tokens.end(), token) > 0;
        if (holds) there.push_back(token);
        if (holds || named) back.push_back(token);
      }
      std::vector<double> moved(static_cast<std::size_t>(options_.hidden_size), 0.0);
      for (int g = 0; g < model.group_size(); ++g) {
        const naive::QueryHeadStates own{states, model, trace().attention(head.layer),
                                         head.head * model.group_size() + g};
        const std::vector<double> after = added(own, own.attention(queries[q], back));
        const std::vector<double> before = added(own, own.attention(queries[q], there));
        for (std::size_t c = 0; c < moved.size(); ++c) moved[c] += after[c] - before[c];
      }
      double square = 0.0;
      for (std::size_t c = 0; c < moved.size(); ++c) {
        square += moved[c] * moved[c];
        effect +=
            moved[c] * effects(static_cast<Eigen::Index>(q), static_cast<Eigen::Index>(c)) / 5.0;
      }
      change += std::sqrt(square) / 5.0;
    }
    EXPECT_NEAR(heads[i].change, change, 1e-5) << i;
    EXPECT_NEAR(heads[i].effect, effect, 1e-5) << i;
    largest = std::max(largest, change);
  }
  EXPECT_GT(largest, 0.01) << "nothing was lost";
}

TEST_F(RestoreTest, WhatIsThereHasNothingToRestore) {
  for (const RestoredHead& head :
       restored_heads(trace(), run("full", 77), {5, 6}, {}, test::unwatched)) {
    EXPECT_EQ(head.change, 0.0);
    EXPECT_TRUE(std::isnan(head.effect));
  }
  EXPECT_THROW(restored_heads(trace(), run("full", 77), {77}, {}, test::unwatched), UsageError);
}

TEST_F(RestoreTest, HeadsAreBlamedByTheBestNumberThatIsKnown) {
  const Replay replay = run("h2o", 20);
  ReadsRequest request{.tokens = {20, 21, 22, 23}};
  const std::vector<TokenReads> reads = token_reads(trace(), request, test::unwatched);
  const auto restored = restored_heads(trace(), replay, request.tokens, {}, test::unwatched);
  const std::vector<FollowedHead> heads = follow(replay, reads, request.tokens, restored);
  EXPECT_STREQ(blame_name(heads), "change");
  for (std::size_t i = 1; i < heads.size(); ++i) {
    EXPECT_GE(heads[i - 1].blame, heads[i].blame);
    EXPECT_EQ(heads[i].blame, heads[i].restored.change);
  }
  // Card, finding and search name the first heads that lost something; the numbers say on whose
  // answer they stand.
  std::vector<FollowedHead> two = heads;
  two[2].blame = 0.0;
  EXPECT_EQ(named_heads(two).size(), 2U);
  ASSERT_EQ(named_heads(heads).size(), 3U);
  EXPECT_EQ(named_heads(heads)[2].blame, heads[2].blame);
  EXPECT_THAT(restored_over(trace(), replay), StartsWith("the 5 tokens of the answer"));
  EXPECT_STREQ(blame_name(follow(replay, reads, request.tokens)), "loss");
  Eigen::MatrixXd effects = Eigen::MatrixXd::Ones(5, options_.hidden_size);
  const auto with_logit =
      restored_heads(trace(), replay, request.tokens, {}, test::unwatched, &effects);
  EXPECT_STREQ(blame_name(follow(replay, reads, request.tokens, with_logit)), "logit");
}

TEST_F(RestoreTest, RowsOfTheOutputHeadAreEnoughToBlameByLogits) {
  options_.lm_head_rows = true;
  const Replay replay = run("h2o", 20);
  ReadsRequest request{.tokens = {20, 21, 22, 23}};
  const std::vector<TokenReads> reads = token_reads(trace(), request, test::unwatched);
  const auto restored = restored_heads(trace(), replay, request.tokens, {}, test::unwatched);
  EXPECT_STREQ(blame_name(follow(replay, reads, request.tokens, restored)), "logit");
}

TEST_F(RestoreTest, WithoutOutputWeightsItIsUnknown) {
  options_.output_weight = options_.value_out_norms = false;
  for (const RestoredHead& head :
       restored_heads(trace(), run("h2o", 20), {20}, {}, test::unwatched)) {
    EXPECT_TRUE(std::isnan(head.change));
  }
}

}  // namespace
}  // namespace kvloupe
