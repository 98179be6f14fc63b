// Shares of heads and layers on a few entries, with the arithmetic in a comment.

#include "analysis/policy/kit/layer_preference.h"
#include "tests/support/test.h"

namespace kvloupe {
namespace {

/// The quotas a spec's allocation gives heads with these scores; token = row, all of one block.
std::vector<int> quotas(const std::string& spec, const std::vector<std::vector<float>>& scores,
                        int budget, const Protection& protection = {}) {
  const PolicySpec parsed = parse_policy(spec);
  StepView view;
  std::vector<std::vector<std::int32_t>> tokens;
  const MatrixView none(nullptr, 0, 2, Eigen::OuterStride<>(2));
  for (const auto& own : scores) {
    tokens.emplace_back(own.size());
    std::iota(tokens.back().begin(), tokens.back().end(), 0);
  }
  for (const auto& own : tokens) view.caches.push_back({own, none, none, {}});
  const auto allocation =
      find_policy("adakv")->as<AllocationBuilder>()->make(*parsed.find("adakv"), {});
  EXPECT_TRUE(allocation->over_budget(view, budget));
  return allocation->quotas(view, scores, protection, budget);
}

const std::vector<std::vector<float>> kTwoHeads = {{9, 8, 7, 6, 1, 0}, {2, 5, 3, 1, 0, 0}};

TEST(AdaKv, PinsEachHeadsBestThenGoesByScoreOverTheLayer) {
  // N = 3, two heads: 6 entries. Without a safeguard the six highest are 9 8 7 6 5 3: 4 and 2.
  EXPECT_THAT(quotas("h2o+adakv(0)", kTwoHeads, 3), ElementsAre(4, 2));
  // ⌊0.2·3⌋ = 0 pinned: the same.
  EXPECT_THAT(quotas("h2o+adakv", kTwoHeads, 3), ElementsAre(4, 2));
  // All pinned: uniform.
  EXPECT_THAT(quotas("h2o+adakv(1)", kTwoHeads, 3), ElementsAre(3, 3));
  // N = 4, 8 entries, ⌊0.75·4⌋ = 3 pinned: 9 8 7 and 5 3 2, then 6, and of the equal 1s at token 4
  // of head 0 and token 3 of head 1 the later one: 5 and 3.
  EXPECT_THAT(quotas("h2o+adakv(0.75)", kTwoHeads, 4), ElementsAre(5, 3));
}

TEST(AdaKv, MixLiesBetweenTheCountInTheTopAndTheUniformShare) {
  // N = 3: c = (4, 2). a = 0.5: round(0.5·4 + ⌊1.5⌋) = 3, round(0.5·2 + 1) = 2: one less than 6.
  EXPECT_THAT(quotas("h2o+adakv(0.5,mode=mix)", kTwoHeads, 3), ElementsAre(3, 2));
  // N = 2: c = (4, 0); a = 0.2: round(0.8·4 + 0) = 3; round(0) = 0, but a head keeps one.
  EXPECT_THAT(quotas("h2o+adakv(mode=mix)", kTwoHeads, 2), ElementsAre(3, 1));
  // N = 3, a = 0.5 and c = (5, 1): 2.5 + 1 = 3.5 → 4 and 0.5 + 1 = 1.5 → 2, halves to even.
  EXPECT_THAT(quotas("h2o+adakv(0.5,mode=mix)", {{9, 8, 7, 6, 5}, {4, 0, 0}}, 3),
              ElementsAre(4, 2));
}

TEST(AdaKv, ProtectedEntriesCountAsPinned) {
  // N = 2, two recent of each head: all 4 places are taken, whatever the scores.
  EXPECT_THAT(quotas("h2o+adakv(0)", kTwoHeads, 2, {.recent = 2}), ElementsAre(2, 2));
  // N = 3, the last of each head, ⌊0.4·3⌋ = 1 pinned: the protected one is it. 9 8 7 6 take all of
  // the other four places.
  EXPECT_THAT(quotas("h2o+adakv(0.4)", kTwoHeads, 3, {.recent = 1}), ElementsAre(5, 1));
  // More protection than budget: N of each.
  EXPECT_THAT(quotas("h2o+adakv", kTwoHeads, 2, {.window = 5}), ElementsAre(2, 2));
}

TEST(AdaKv, TiesZerosOneTokenAndBudgetOne) {
  // All equal, N = 1, two heads: each head is sure of one.
  EXPECT_THAT(quotas("h2o+adakv(0)", {{0, 0, 0}, {0, 0, 0}}, 1), ElementsAre(1, 1));
  // N = 2: 4 entries; the later tokens first, head 0 before head 1: tokens 2 2 1 1.
  EXPECT_THAT(quotas("h2o+adakv(0)", {{0, 0, 0}, {0, 0, 0}}, 2), ElementsAre(2, 2));
  // One head has one token only: it keeps it, the rest goes to the other.
  EXPECT_THAT(quotas("h2o+adakv", {{0}, {9, 9, 9, 9, 9}}, 2), ElementsAre(1, 3));
}

TEST(AdaKv, SafeguardsAreReadAsDecimals) {
  // ⌊0.29·100⌋ = 29, though 0.29·100 is 28.999999999999996 in binary: head 1's scores are all
  // lower.
  std::vector<std::vector<float>> scores(2, std::vector<float>(200));
  std::fill(scores[0].begin(), scores[0].end(), 1.0F);
  EXPECT_THAT(quotas("h2o+adakv(0.29)", scores, 100), ElementsAre(171, 29));
}

TEST(AdaKv, RefusesOneSetForTheLayerAndDoubtsScoresOfTheirOwnScale) {
  EXPECT_THAT(test::error_of<UsageError>([&] { parse_policy("tova(layer)+adakv"); }),
              HasSubstr("'adakv' at column 13: tova(layer) keeps one set"));
  ModelInfo model;
  model.num_heads = model.num_kv_heads = 2;
  const auto notes = [&](const char* spec) { return policy_notes(parse_policy(spec), model, 100); };
  EXPECT_TRUE(notes("h2o+adakv").empty());
  ASSERT_EQ(notes("keydiff+adakv").size(), 1U);
  EXPECT_THAT(notes("keynorm+adakv")[0], HasSubstr("on a different scale"));
  EXPECT_THAT(notes("h2o+adakv(mode=mix)")[0], HasSubstr("allocation_drift"));
}

std::vector<int> pyramid(int layers, int budget, double beta, int seen) {
  std::vector<int> result;
  for (int layer = 0; layer < layers; ++layer) {
    result.push_back(pyramid_budget(layer, layers, budget, beta, seen));
  }
  return result;
}

TEST(Pyramid, FallsFromTwiceTheBudgetLessTheLeast) {
  // N = 40, β = 20: min = 2, max = 78; L = 5: steps of 19.
  EXPECT_THAT(pyramid(5, 40, 20, 1000), ElementsAre(78, 59, 40, 21, 2));
  // N = 10, β = 20: min = 0.5, max = 19.5; L = 3: 19.5, 10, 0.5. Halves to even: 20, 10, 0 → 1.
  EXPECT_THAT(pyramid(3, 10, 20, 1000), ElementsAre(20, 10, 1));
  // N = 5, β = 2: min = 2.5, max = 7.5; L = 2: 8 and 2, sum 10.
  EXPECT_THAT(pyramid(2, 5, 2, 1000), ElementsAre(8, 2));
  // β = 1: min = max = N.
  EXPECT_THAT(pyramid(3, 10, 1, 1000), ElementsAre(10, 10, 10));
}

TEST(Pyramid, WithFewTokensTheFirstLayerKeepsThemAll) {
  // max = 78 > n = 50: max = 50, min = 80 − 50 = 30; L = 5: steps of 5.
  EXPECT_THAT(pyramid(5, 40, 20, 50), ElementsAre(50, 45, 40, 35, 30));
  EXPECT_THAT(pyramid(5, 40, 20, 40), ElementsAre(40, 40, 40, 40, 40));
  EXPECT_THAT(pyramid(5, 40, 20, 7), ElementsAre(40, 40, 40, 40, 40));
  EXPECT_THAT(pyramid(1, 40, 20, 1000), ElementsAre(40));
  // With a window of 8 the first layer holds at most 60 - 8.
  EXPECT_EQ(pyramid_budget(0, 5, 40, 4, 60, 8), 52);
  EXPECT_EQ(pyramid_budget(2, 5, 40, 4, 60, 8), 40);
  EXPECT_EQ(pyramid_budget(4, 5, 40, 4, 60, 8), 28);
  // The last layer would hold 40/4 < 12, or the first less than 40: all hold the same.
  EXPECT_EQ(pyramid_budget(0, 5, 40, 4, 1000, 12), 40);
  EXPECT_EQ(pyramid_budget(0, 5, 40, 4, 1000, 10), 70);
  EXPECT_EQ(pyramid_budget(4, 5, 40, 4, 60, 30), 40);
}

TEST(Pyramid, TheSumIsExactWhateverTheRounding) {
  for (int layers = 2; layers <= 40; ++layers) {
    for (int budget = 2; budget <= 120; ++budget) {
      for (const double beta : {1.0, 1.7, 2.0, 2.5, 10.0, 20.0}) {
        if (budget / beta < 1.0) continue;  // where a layer is given its 1
        for (const int seen : {budget + 1, 2 * budget - 1, 1000}) {
          const std::vector<int> shares = pyramid(layers, budget, beta, seen);
          ASSERT_EQ(std::accumulate(shares.begin(), shares.end(), 0), layers * budget)
              << layers << " layers, budget " << budget << ", beta " << beta;
          ASSERT_TRUE(std::is_sorted(shares.rbegin(), shares.rend()));
          ASSERT_LE(shares.front(), seen);
        }
      }
    }
  }
}

TEST(Pyramid, ABudgetOfOneKeepsOneEntryPerHead) {
  // N = 1, beta 20, 4 layers, n = 10: 1 + 0.95, 1 + 0.317, 1 − 0.317, 1 − 0.95, rounded 2 1 1 0;
  // the last keeps one all the same.
  EXPECT_THAT(pyramid(4, 1, 20, 10), ElementsAre(2, 1, 1, 1));
  EXPECT_THAT(pyramid(4, 1, 20, 1), ElementsAre(1, 1, 1, 1));  // one token: nothing to share out
}

TEST(Pyramid, NotesWhatIsOutOfTheOrdinary) {
  ModelInfo model{.num_layers = 1, .num_heads = 2, .num_kv_heads = 2};
  const auto notes = [&](int budget) {
    return policy_notes(parse_policy("tova+pyramid"), model, budget);
  };
  EXPECT_THAT(notes(40)[0], HasSubstr("one layer"));
  model.num_layers = 4;
  EXPECT_TRUE(notes(40).empty());
  EXPECT_THAT(notes(9)[0], HasSubstr("rounds to 0"));
}

}  // namespace
}  // namespace kvloupe
