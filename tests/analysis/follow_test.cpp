// Followed tokens against plain loops over the whole attention, and against the explanation of each
// token by itself.

#include "analysis/replay/follow.h"
#include "analysis/replay/explain.h"
#include "tests/naive/naive_roles.h"
#include "tests/support/test.h"

namespace kvloupe {
namespace {

struct Follow : testing::TestWithParam<int>, test::MadeTrace {  // the model's window
  Follow()
      : MadeTrace({.prompt_length = 120,
                   .generated = 7,
                   .question = 20,
                   .block = 16,
                   .sliding_window = GetParam()}) {}

  Replay replayed(const std::string& spec, const std::vector<int>& tokens, int scores_layer = -1,
                  int scores_head = -1) {
    return run(spec, 30,
               {.metrics = false,
                .scores_layer = scores_layer,
                .scores_head = scores_head,
                .followed = tokens});
  }

  Progress progress_;
};

std::vector<int> from_to(int first, int end) {
  std::vector<int> all(static_cast<std::size_t>(end - first));
  std::iota(all.begin(), all.end(), first);
  return all;
}

/// The mean of two query heads' means.
double mean_of_group(const std::vector<std::vector<double>>& a,
                     const std::vector<std::vector<double>>& b, const std::vector<int>& queries,
                     const std::vector<int>& tokens) {
  return (naive::mean_read(a, queries, tokens) + naive::mean_read(b, queries, tokens)) / 2;
}

TEST_P(Follow, ReadsAreThoseOfThePlainAttention) {
  for (const std::vector<int>& tokens :
       {from_to(40, 52), std::vector<int>{0}, std::vector<int>{3, 90, 99}}) {
    ReadsRequest request{.tokens = tokens};
    request.roles = request.effective_tokens = true;
    LayerStatesCache states(std::size_t{1} << 24U);
    request.states = &states;
    const std::vector<TokenReads> reads = token_reads(*trace_, request, progress_);
    ASSERT_EQ(reads.size(), 4U);
    for (const TokenReads& head : reads) {
      const auto a = attention_of(head.layer, 2 * head.head);
      const auto b = attention_of(head.layer, 2 * head.head + 1);
      EXPECT_NEAR(head.question, mean_of_group(a, b, from_to(100, 120), tokens), 1e-5);
      EXPECT_NEAR(head.answer, mean_of_group(a, b, from_to(119, 126), tokens), 1e-5);
      EXPECT_EQ(head.read, head.answer);
      EXPECT_NEAR(head.later, mean_of_group(a, b, from_to(tokens.back() + 1, 127), tokens), 1e-5);
      ASSERT_EQ(head.roles.size(), 2U);
      const HeadRoles role =
          naive::roles(b, GetParam(), role_tokens(trace_->tokens(), trace_->run()));
      EXPECT_NEAR(head.roles[1].sink, role.sink, 1e-5);
      EXPECT_NEAR(head.roles[1].question, role.question, 1e-5);
      double effective = 0.0;
      for (const auto* rows : {&a, &b}) {
        for (const std::vector<double>& row : *rows) {
          double entropy = 0.0;
          for (const double p : row) entropy -= p > 0.0 ? p * std::log(p) : 0.0;
          effective += std::exp(entropy) / (2.0 * static_cast<double>(rows->size()));
        }
      }
      EXPECT_NEAR(head.effective_tokens, effective, 1e-3);
    }
  }
}

TEST_P(Follow, AQueryThatAFollowedTokenComesAfterIsLeftOut) {
  ReadsRequest request{.tokens = {110}};
  const TokenReads head = token_reads(*trace_, request, progress_).front();
  const auto a = attention_of(0, 0), b = attention_of(0, 1);
  EXPECT_NEAR(head.question, mean_of_group(a, b, from_to(111, 120), {110}), 1e-5);
  request.tokens = {options_.tokens() - 1};
  const TokenReads last = token_reads(*trace_, request, progress_).front();
  EXPECT_TRUE(std::isnan(last.later) && std::isnan(last.read)) << "nothing comes after it";
}

TEST_P(Follow, SharesAreThoseOfTheRetainedSets) {
  const std::vector<int> tokens{0, 17, 40, 41, 42, 43, 90};
  for (const char* spec : {"h2o", "keydiff", "random", "full", "h2o+adakv", "kvmerger"}) {
    const Replay result = replayed(spec == std::string("kvmerger") ? "h2o+kvmerger" : spec, tokens);
    for (const HeadReplay& head : result.heads) {
      const TokenFate fate = token_fate(result, head, tokens);
      ASSERT_EQ(fate.share.size(), result.blocks.size());
      for (int step = 0; step < static_cast<int>(result.blocks.size()); ++step) {
        const std::vector<std::int32_t> there = result.retained_at(head, step);
        int seen = 0, kept = 0;
        for (const int token : tokens) {
          if (token >= result.blocks[step].end) continue;
          ++seen;
          const bool unseen =
              result.left_unseen(head, token) && token < result.first_token(head, step);
          kept += unseen || std::binary_search(there.begin(), there.end(), token) ? 1 : 0;
        }
        EXPECT_NEAR(fate.share[step], double(kept) / seen, 1e-12) << spec << " step " << step;
      }
      EXPECT_EQ(fate.kept, fate.share.back());
      EXPECT_EQ(fate.first_loss >= 0, fate.kept < 1.0);
    }
  }
}

TEST_P(Follow, LossesAreWhatTheExplanationOfEachTokenSays) {
  const std::vector<int> tokens = from_to(30, 60);
  int losses = 0;
  for (const char* spec : {"h2o", "keydiff", "snapkv(8)+adakv", "h2o+kvmerger", "sink(2)"}) {
    const Replay result = replayed(spec, tokens);
    for (const HeadReplay& head : result.heads) {
      const Replay scored = replayed(spec, {}, head.layer, head.head);
      EXPECT_TRUE(scored.heads.front().losses.empty());
      std::size_t next = 0;
      for (const int token : tokens) {
        const TokenExplanation told = explain(scored, *scored.find(head.layer, head.head), token);
        if (told.left < 0 || told.steps.back().fate == Fate::beyond_window) continue;
        ASSERT_LT(next, head.losses.size()) << spec;
        const TokenLoss& loss = head.losses[next++];
        const StepReason& reason = told.steps.back();
        EXPECT_EQ(loss.token, token);
        EXPECT_EQ(loss.step, told.left);
        EXPECT_EQ(loss.rank, reason.rank) << spec;
        EXPECT_EQ(loss.entries, reason.cache_size);
        EXPECT_EQ(loss.fate, reason.fate);
        if (reason.rank > 0) {
          EXPECT_EQ(static_cast<double>(loss.score), reason.score);
          if (!std::isnan(reason.margin)) {
            EXPECT_EQ(loss.margin(), reason.margin);
          }
        }
        ++losses;
      }
      EXPECT_EQ(next, head.losses.size());
    }
  }
  EXPECT_GT(losses, 50);
}

TEST_P(Follow, HeadsComeByFallingLoss) {
  ReadsRequest request;
  request.tokens = from_to(80, 100);  // the answer's queries see them in any window here
  const std::vector<TokenReads> reads = token_reads(*trace_, request, progress_);
  const Replay result = replayed("h2o", request.tokens);
  const std::vector<FollowedHead> heads = follow(result, reads, request.tokens);
  ASSERT_EQ(heads.size(), 4U);
  for (std::size_t i = 0; i < heads.size(); ++i) {
    EXPECT_DOUBLE_EQ(heads[i].loss, heads[i].reads.read * (1.0 - heads[i].fate.kept));
    if (i > 0) {
      EXPECT_LE(heads[i].loss, heads[i - 1].loss);
    }
  }
  EXPECT_GT(heads.front().loss, 0.0);
  const Replay full = replayed("full", request.tokens);
  for (const FollowedHead& head : follow(full, reads, request.tokens)) EXPECT_EQ(head.loss, 0.0);
}

TEST_P(Follow, PartsComeLayerByLayer) {
  ReadsRequest request{.tokens = {5}};
  int heads = 0;
  token_reads(*trace_, request, progress_, [&](const std::vector<TokenReads>& layer) {
    ASSERT_EQ(layer.size(), 2U);
    EXPECT_EQ(layer[0].layer, layer[1].layer);
    heads += 2;
  });
  EXPECT_EQ(heads, 4);
}

TEST_P(Follow, WhatTheTraceLacksIsRefused) {
  ReadsRequest request;
  EXPECT_THROW(token_reads(*trace_, request, progress_), UsageError);
  request.tokens = {5, 127};
  EXPECT_THROW(token_reads(*trace_, request, progress_), UsageError);
  request.tokens = {-1};
  EXPECT_THROW(token_reads(*trace_, request, progress_), UsageError);
  EXPECT_THROW(replayed("h2o", {127}), UsageError);
  request.tokens = {5};
  progress_.cancel();
  EXPECT_THROW(token_reads(*trace_, request, progress_), Cancelled);
}

INSTANTIATE_TEST_SUITE_P(Windows, Follow, testing::Values(0, 48));

// Why a token was kept or left.

struct ExplainTest : testing::Test, test::MadeTrace {
  ExplainTest() : MadeTrace({.layers = 1, .clusters = 4}) {}
  Replay run(const std::string& spec, int budget) {
    return MadeTrace::run(spec, budget, {.scores_layer = 0, .scores_head = 1});
  }
};

TEST_F(ExplainTest, AgreesWithTheReplayForEveryToken) {
  for (const char* spec :
       {"keydiff", "h2o+recent(4)+sinks(2)", "snapkv(8)", "random+kvmerger(auto)", "h2o+cam(3)"}) {
    const Replay result = run(spec, 20);
    const HeadReplay& head = *result.find(0, 1);
    for (int token = 0; token < trace_->length(); ++token) {
      const TokenExplanation explanation = explain(result, head, token);
      ASSERT_EQ(explanation.left, head.evicted_at[token]);
      const Block& block = result.blocks[explanation.entered];
      ASSERT_TRUE(block.first <= token && token < block.end);
      for (const StepReason& reason : explanation.steps) {
        const auto retained = result.retained_at(head, reason.step);
        const bool kept = std::binary_search(retained.begin(), retained.end(), token);
        ASSERT_EQ(kept, reason.fate != Fate::evicted && reason.fate != Fate::merged);
        ASSERT_FALSE(reason_text(explanation, reason).empty());
        ASSERT_GE(reason.rank, 1);
        ASSERT_LE(reason.rank, reason.cache_size);
        if (!reason.decided) continue;
        if (reason.fate == Fate::evicted) {
          ASSERT_LE(reason.margin, 0.0);
        }
        if (reason.fate == Fate::by_score && !std::isnan(reason.threshold)) {
          ASSERT_GE(reason.margin, 0.0);
        }
        if (reason.fate == Fate::merged) {
          ASSERT_FALSE(reason.merges.empty());
        }
      }
    }
  }
}

TEST_F(ExplainTest, RanksAreAPermutation) {
  const Replay result = run("sink(2)", 20);
  const HeadReplay& head = *result.find(0, 1);
  std::vector<int> ranks;
  for (const int token : result.tokens_at(head, 1)) {
    const TokenExplanation explanation = explain(result, head, token);
    ranks.push_back(explanation.steps[1 - explanation.entered].rank);
  }
  // sink's scores rise with the token: the first ranks last.
  ASSERT_EQ(ranks.front(), static_cast<int>(ranks.size()));
  ASSERT_EQ(ranks.back(), 1);
  std::sort(ranks.begin(), ranks.end());
  for (std::size_t i = 0; i < ranks.size(); ++i) ASSERT_EQ(ranks[i], static_cast<int>(i) + 1);
}

TEST_F(ExplainTest, SaysWhatHappened) {
  // Budget 10, blocks of 32: at step 0 tokens 0 and 1 are sinks, 24 to 31 the most recent.
  const Replay result = run("sink(2)", 10);
  const HeadReplay& head = *result.find(0, 1);
  const auto at = [&](int token) {
    const TokenExplanation explanation = explain(result, head, token);
    return reason_text(explanation, explanation.steps.front());
  };
  EXPECT_THAT(at(0), HasSubstr("protected as one of the first tokens"));
  EXPECT_EQ(at(23), "evicted: score 23, rank 9 of 32, threshold 24, margin −1");
  EXPECT_EQ(at(24), "kept by its score: score 24, rank 8 of 32, threshold 24, margin 0");
  const Replay merging = run("random+kvmerger(auto,recent=0,heavy=0)", 10);
  const HeadReplay& merged = *merging.find(0, 1);
  const Merge& set = merged.steps[0].merges.at(0);
  const int member = set.from[0] == set.into ? set.from[1] : set.from[0];
  const TokenExplanation explanation = explain(merging, merged, member);
  EXPECT_THAT(reason_text(explanation, explanation.steps.front()),
              HasSubstr("set into " + std::to_string(set.into)));
  const Replay giving = run("sink(2)+cam(1)", 10);
  const HeadReplay& given = *giving.find(0, 1);
  const Merge gift = giving.merges_at(given, 0).at(0);
  const auto says = [&](int token) {
    const TokenExplanation why = explain(giving, given, token);
    return reason_text(why, why.steps.front());
  };
  // m = 1: everything goes to the first kept after it, 24.
  EXPECT_THAT(says(gift.from[0]), HasSubstr("; its value is given to 24 ("));
  EXPECT_THAT(says(24), HasSubstr("; it receives the values of " + std::to_string(gift.from[0])));
}

TEST_F(ExplainTest, RefusesWhatItCannotAnswer) {
  const Replay result = run("keydiff", 20);
  EXPECT_THROW(explain(result, *result.find(0, 1), -1), UsageError);
  EXPECT_THROW(explain(result, *result.find(0, 1), trace_->length()), UsageError);
  EXPECT_THROW(explain(result, *result.find(0, 0), 3), std::invalid_argument);
}

}  // namespace
}  // namespace kvloupe
