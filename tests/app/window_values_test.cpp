// The texts of the panels, without a window: numbers, the fate of tokens.

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "app/figure/figures/overview_measures.h"
#include "app/window/state/step_tokens.h"
#include "app/window/widgets/numbers.h"

namespace kvloupe::window {
namespace {

TEST(Numbers, HaveThreeSignificantDigitsAndARealMinus) {
  EXPECT_EQ(three_digits(0.12345), "0.123");
  EXPECT_EQ(three_digits(0.0012345), "0.00123");
  EXPECT_EQ(three_digits(-1.5), "−1.50");
  EXPECT_EQ(three_digits(9.999), "10.0");
  EXPECT_EQ(three_digits(99.96), "100");
  EXPECT_EQ(three_digits(12345.0), "12\u2009300");
  EXPECT_EQ(three_digits(4.56e-7), "4.56e−7");
  EXPECT_EQ(three_digits(1e12), "1.00e12");
  EXPECT_EQ(three_digits(0.0), "0");
  EXPECT_EQ(three_digits(std::nan("")), "–");
  EXPECT_EQ(three_digits(-std::numeric_limits<double>::infinity()), "−∞");
  EXPECT_EQ(count_text(1234), "1234");
  EXPECT_EQ(count_text(32768), "32\u2009768");
  EXPECT_EQ(count_text(-1234567), "−1\u2009234\u2009567");
  EXPECT_EQ(tokens_text(7, 7), "token 7");
  EXPECT_EQ(tokens_text(0, 32767), "tokens 0–32\u2009767");
}

TEST(Numbers, AreShownWholeOrNotAtAll) {
  const auto shown = [](const std::string& value, std::size_t room) {
    return whole_numbers(value, [room](const std::string& text) { return text.size() <= room; });
  };
  EXPECT_EQ(shown("493 / 546", 9), "493 / 546");
  EXPECT_EQ(shown("493 / 546", 8), "493 …");
  EXPECT_EQ(shown("0.771 (7)", 9), "0.771 (7)");
  EXPECT_EQ(shown("0.771 (7)", 8), "…") << "its first number has no room either";
  EXPECT_EQ(shown("419 (64)", 7), "419 …");
  EXPECT_EQ(shown("0.894", 4), "…");
}

TEST(RunText, SaysWhatIsKnownOnly) {
  RunInfo run{.dtype = "f32", .device = "cpu", .policy = "full"};
  EXPECT_EQ(run_text(run), "f32 on cpu, full cache");
  run.dtype.clear();
  EXPECT_EQ(run_text(run), "on cpu, full cache");
  run.device.clear();
  EXPECT_EQ(run_text(run), "full cache");
  run.dtype = "bf16";
  run.policy = "h2o";
  EXPECT_EQ(run_text(run), "bf16, h2o");
}

/// Two steps over six tokens: token 1 goes at step 0, token 3 at step 1.
Replay small_replay() {
  Replay replay;
  replay.blocks = {{0, 3}, {3, 6}};
  HeadReplay head;
  head.evicted_at = {-1, 0, -1, 1, -1, -1};
  head.steps.resize(2);
  head.steps[0].retained = 2;
  head.steps[1].retained = 4;
  head.scores = {{5.0F, 1.0F, 5.0F}, {3.0F, 2.0F, 1.0F, 7.0F, 2.0F}};
  head.fates = {{Fate::sink, Fate::evicted, Fate::by_score},
                {Fate::sink, Fate::by_score, Fate::evicted, Fate::by_score, Fate::recent}};
  replay.heads = {head};
  return replay;
}

TEST(StepTokens, SayWhatHasBecomeOfEveryToken) {
  using State = figure::TokenState;
  const Replay replay = small_replay();
  const StepTokens first = step_tokens(replay, replay.heads[0], 0);
  EXPECT_EQ(first.states, (std::vector<State>{State::protected_, State::evicted, State::retained,
                                              State::ahead, State::ahead, State::ahead}));
  EXPECT_EQ(first.leaving, (std::vector<bool>{false, true, false, false, false, false}));
  EXPECT_EQ(state_text(first, 0), "kept (sink)");
  EXPECT_EQ(state_text(first, 1), "evicted at this step");
  EXPECT_EQ(first.ranks, (std::vector<int>{2, 3, 1, 0, 0, 0}))
      << "of equal scores the later ranks higher";
  const StepTokens second = step_tokens(replay, replay.heads[0], 1);
  EXPECT_EQ(second.states,
            (std::vector<State>{State::protected_, State::evicted, State::retained, State::evicted,
                                State::retained, State::protected_}));
  EXPECT_EQ(second.leaving, (std::vector<bool>{false, false, false, true, false, false}));
  EXPECT_EQ(state_text(second, 1), "evicted");
  EXPECT_EQ(state_text(second, 5), "kept (recent)");
  EXPECT_EQ(second.ranks, (std::vector<int>{2, 0, 4, 5, 1, 3}));
  EXPECT_TRUE(std::isnan(second.scores[1]));
  EXPECT_EQ(step_tokens(replay, replay.heads[0], 9).scored, 0);
}

TEST(KeptOverlap, CountsWhatBothKeepAmongWhatEitherKeeps) {
  const Replay a = small_replay();
  Replay b = a;
  EXPECT_DOUBLE_EQ(figure::kept_overlap(a.heads[0], b.heads[0], 1, 6), 1.0);
  b.heads[0].evicted_at = {1, -1, -1, -1, -1, -1};
  // A keeps 0 2 4 5, B keeps 1 2 3 4 5.
  EXPECT_DOUBLE_EQ(figure::kept_overlap(a.heads[0], b.heads[0], 1, 6), 3.0 / 6.0);
}

TEST(StepTokensTest, TheShareOfHeadsThatHaveEachToken) {
  Replay replay = small_replay();
  replay.heads.push_back(replay.heads[0]);
  replay.heads[1].evicted_at.assign(replay.heads[0].evicted_at.size(), -1);
  const std::vector<float> share = share_of_heads(replay, 1);
  ASSERT_EQ(share.size(), replay.heads[0].evicted_at.size());
  for (std::size_t token = 0; token < share.size(); ++token) {
    const int gone = replay.heads[0].evicted_at[token];
    const bool seen = static_cast<int>(token) < replay.blocks[1].end;
    EXPECT_EQ(share[token], !seen ? 0.0F : gone < 0 || gone > 1 ? 1.0F : 0.5F) << token;
  }
}

TEST(Counts, OneTokenIsNoRange) {
  EXPECT_EQ(tokens_text(1924, 1924), "token 1924");
  EXPECT_EQ(tokens_text(7, 9), "tokens 7–9");
  EXPECT_EQ(token_count_text(1), "1 token");
  EXPECT_EQ(token_count_text(0), "0 tokens");
  EXPECT_EQ(token_count_text(12345), "12\u2009345 tokens");
}

}  // namespace
}  // namespace kvloupe::window
