// Merging by hand, and what holds for every replay with merges.

#include <numbers>

#include "analysis/math/merging.h"
#include "analysis/policy/kit/merging_sets.h"
#include "analysis/replay/compression.h"
#include "tests/support/given_attention.h"
#include "tests/support/random_matrix.h"
#include "tests/support/record_values.h"
#include "tests/support/test.h"

namespace kvloupe {
namespace {

using test::matrix;
using Sets = std::vector<std::vector<int>>;

/// Unit keys at these angles, in degrees.
Matrix at_angles(const std::vector<double>& degrees) {
  Matrix keys(static_cast<Eigen::Index>(degrees.size()), 2);
  for (std::size_t i = 0; i < degrees.size(); ++i) {
    const double angle = degrees[i] * std::numbers::pi / 180.0;
    keys.row(static_cast<Eigen::Index>(i)) << static_cast<float>(std::cos(angle)),
        static_cast<float>(std::sin(angle));
  }
  return keys;
}

TEST(MergingSets, AreOpenedFromTheEndAndJoinedWhileTheCosineIsAbove) {
  const Matrix keys = at_angles({0, 20, 40, 90, 100});
  const std::vector<int> all = {0, 1, 2, 3, 4};
  MergingSets anchor(view(keys), all, MergingSets::Link::anchor);
  // ε = 0.75: 100° opens; 90° joins (cos 10° = 0.98); 40° (cos 60° = 0.5) opens; 20° joins (0.94);
  // 0° joins (cos 40° = 0.766).
  EXPECT_EQ(anchor.at(0.75), (Sets{{3, 4}, {0, 1, 2}}));
  // ε = 0.8: cos 40° fails against the opener, so 0° is alone; against its neighbour it joins.
  EXPECT_EQ(anchor.at(0.8), (Sets{{3, 4}, {1, 2}, {0}}));
  MergingSets chain(view(keys), all, MergingSets::Link::chain);
  EXPECT_EQ(chain.at(0.8), (Sets{{3, 4}, {0, 1, 2}}));
  // Neighbours among the candidates: without 20° and 90° the set of 40° still reaches to 0°.
  const std::vector<int> some = {0, 2, 4};
  MergingSets few(view(keys), some, MergingSets::Link::anchor);
  EXPECT_EQ(few.at(0.75), (Sets{{4}, {0, 2}}));
  EXPECT_EQ(few.count(0.75), 2U);
}

TEST(MergingSets, AThresholdIsFoundForAnyNumberOfSets) {
  const Matrix keys = at_angles({0, 20, 40, 90, 100});
  const std::vector<int> all = {0, 1, 2, 3, 4};
  const auto cosine = [](double degrees) { return std::cos(degrees * std::numbers::pi / 180.0); };
  MergingSets anchor(view(keys), all, MergingSets::Link::anchor);
  EXPECT_EQ(anchor.threshold_for(5), 1.0);
  EXPECT_NEAR(anchor.threshold_for(2), cosine(40), 1e-6);   // 0° must join 40°
  EXPECT_NEAR(anchor.threshold_for(1), cosine(100), 1e-6);  // 0° must join 100°
  EXPECT_LT(anchor.threshold_for(0), -1.0);                 // never: as few as there can be
  EXPECT_EQ(anchor.count(anchor.threshold_for(0)), 1U);
  MergingSets chain(view(keys), all, MergingSets::Link::chain);
  EXPECT_NEAR(chain.threshold_for(1), cosine(50), 1e-6);  // 40° to 90° is the widest step
  for (const std::size_t most : {1U, 2U, 3U, 4U}) {
    EXPECT_LE(anchor.count(anchor.threshold_for(most)), most);
    EXPECT_LE(chain.count(chain.threshold_for(most)), most);
  }
}

TEST(MergingSets, ZeroKeysAreLikeNoneAndEqualKeysNeverAboveOne) {
  const Matrix keys = matrix({{1, 0}, {0, 0}, {1, 0}, {1, 0}});
  const std::vector<int> all = {0, 1, 2, 3};
  MergingSets sets(view(keys), all, MergingSets::Link::anchor);
  EXPECT_EQ(sets.at(0.0), (Sets{{2, 3}, {1}, {0}}));  // cosine 0 is not above 0
  EXPECT_EQ(sets.count(1.0), 4U);                     // nothing is above 1
  EXPECT_EQ(sets.at(sets.threshold_for(3)), (Sets{{2, 3}, {1}, {0}}));
  const std::vector<int> none;
  MergingSets empty(view(keys), none, MergingSets::Link::chain);
  EXPECT_THAT(empty.at(0.5), IsEmpty());
  EXPECT_EQ(empty.threshold_for(0), 1.0);
}

TEST(MergingWeights, FollowTheGaussian) {
  // g = 1 and exp(−25/50) = 0.606531; w = 1/1.606531 and 0.606531/1.606531.
  const std::vector<double> distances = {0.0, 5.0};
  const std::vector<double> weights = gaussian_weights(distances, 5.0);
  EXPECT_NEAR(weights[0], 0.622459, 1e-6);
  EXPECT_NEAR(weights[1], 0.377541, 1e-6);
  // Σ = 0 + 3 over √2 · 2.
  EXPECT_NEAR(sigma_of_distances(std::vector<double>{0.0, 3.0}), 1.060660, 1e-6);
  // Far apart only the pivot counts: σ = 1/(√2 · 2). All equal: σ = 2/(√2 · 2), the largest.
  EXPECT_NEAR(sigma_of_equation_6(std::vector<double>{0.0, 10.0}), 0.353553, 1e-6);
  EXPECT_NEAR(sigma_of_equation_6(std::vector<double>{0.0, 0.0}), 0.707107, 1e-6);
  EXPECT_THAT(gaussian_weights(std::vector<double>{0.0, 0.0}, 0.0), ElementsAre(0.5, 0.5));
}

TEST(MergingWeights, SigmaOfEquation6IsWhatItSaysAndTheLargestSuch) {
  for (const double far : {0.01, 0.2, 0.5, 0.8, 1.0, 3.0}) {
    const std::vector<double> distances = {0.0, far, 0.5 * far};
    const auto right_side = [&](double sigma) {
      double sum = 0.0;
      for (const double x : distances) sum += std::exp(-x * x / (2.0 * sigma * sigma));
      return sum / (std::numbers::sqrt2 * 3.0);
    };
    const double sigma = sigma_of_equation_6(distances);
    EXPECT_NEAR(sigma, right_side(sigma), 1e-9);
    EXPECT_GE(sigma, 1.0 / (std::numbers::sqrt2 * 3.0));
    for (double above = sigma + 1e-3; above <= 0.7071; above += 1e-3) {
      EXPECT_LT(right_side(above), above);
    }
  }
}

/// One head of d = 2, W_O the identity, attention scale 1.
struct HandMade {
  LayerStates states;
  std::vector<Block> blocks;
  ModelInfo model;

  HandMade(Matrix keys, Matrix values, Matrix queries) {
    model.num_layers = model.num_heads = model.num_kv_heads = 1;
    model.head_dim = model.hidden_size = 2;
    blocks = {{0, static_cast<int>(keys.rows())}};
    states.keys = {std::move(keys)};
    states.values = {std::move(values)};
    states.queries = {std::move(queries)};
    states.output_weights = {Matrix(Matrix::Identity(2, 2))};
  }

  HeadReplay run(const std::string& spec, int budget) {
    policy_ = parse_policy(spec);
    LayerContext context{.model = model, .attention = 1.0, .budget = budget};
    return replay_layer({states, blocks, policy_, context, true, 0}, test::unwatched).front();
  }
  /// Sets and gifts of the first step.
  std::vector<Merge> merges(const HeadReplay& head) const {
    Replay replay;
    replay.blocks = blocks;
    return replay.merges_at(head, 0);
  }

 private:
  PolicySpec policy_;
};

/// Tokens kept by the last step.
std::vector<int> kept(const HeadReplay& head) {
  std::vector<int> result;
  for (std::size_t i = 0; i < head.evicted_at.size(); ++i) {
    if (head.evicted_at[i] < 0) result.push_back(static_cast<int>(i));
  }
  return result;
}

/// cos(k1,k2) = 16/(4·5) = 0.8, cos(k0,k2) = 6/(2·5) = 0.6. Queries are zero, so attention is
/// uniform over what is seen: accumulated 25/12, 13/12, 7/12, 1/4.
HandMade four_tokens(float last_key) {
  return {matrix({{0, 2}, {4, 0}, {4, 3}, {last_key, 0}}), matrix({{0, 0}, {1, 0}, {0, 1}, {0, 0}}),
          Matrix::Zero(4, 2)};
}

TEST(KvMerger, MergesIntoThePivotWithGaussianWeights) {
  // Candidates 0, 1, 2 (recent: 3). 2 opens, 1 joins, 0 does not. The pivot is 1 (13/12 > 7/12).
  // ‖k1 − k2‖ = 3: g = exp(−9/50) = 0.835270; w = 1/1.835270 = 0.544879 and 0.455121.
  HandMade made = four_tokens(1);
  const HeadReplay head = made.run("h2o+kvmerger(recent=1,heavy=0)", 3);
  EXPECT_THAT(kept(head), ElementsAre(0, 1, 3));
  EXPECT_EQ(head.evicted_at[2], 0);
  const StepRecord& step = head.steps[0];
  ASSERT_EQ(step.merges.size(), 1U);
  EXPECT_EQ(step.merges[0].into, 1);
  EXPECT_THAT(step.merges[0].from, ElementsAre(1, 2));
  EXPECT_NEAR(step.merges[0].weights[0], 0.544879, 1e-6);
  EXPECT_NEAR(step.merges[0].weights[1], 0.455121, 1e-6);
  EXPECT_EQ(head.fates[0][2], Fate::merged);
  EXPECT_EQ(head.fates[0][1], Fate::by_score);
  EXPECT_TRUE(std::isnan(step.threshold));  // nothing was evicted for its score
  // Zero queries: uniform. Before: (v1 + v2)/4. After: 2(w1 v1 + w2 v2)/3, so the change in the
  // coordinates is 2·0.544879/3 − 1/4 = 0.113253 and 2·0.455121/3 − 1/4 = 0.053414.
  const QueryHeadMetrics metrics = test::metrics_of(step)[0];
  EXPECT_NEAR(metrics.perturbation_l1, 0.113253 + 0.053414, 1e-6);
  EXPECT_NEAR(metrics.head_error_l2, std::hypot(0.113253, 0.053414), 1e-6);
  EXPECT_NEAR(metrics.retained_mass, 0.75, 1e-6);
  EXPECT_TRUE(std::isnan(metrics.bound_l1));
}

TEST(KvMerger, ALogSizeKeepsTheMassOfTheSet) {
  // The merged entry counts twice: (2(w1 v1 + w2 v2))/4, a change of 0.0224395 in each coordinate.
  HandMade made = four_tokens(1);
  const HeadReplay head = made.run("h2o+kvmerger(recent=1,heavy=0,log_size=1)", 3);
  EXPECT_NEAR(test::metrics_of(head.steps[0])[0].perturbation_l1, 2 * 0.0224395, 1e-6);
  // value_scale=one without it: (w1 v1 + w2 v2)/3.
  const HeadReplay plain = made.run("h2o+kvmerger(recent=1,heavy=0,value_scale=one)", 3);
  EXPECT_NEAR(test::metrics_of(plain.steps[0])[0].perturbation_l1, 0.5 - 1.0 / 3.0, 1e-6);
}

TEST(KvMerger, WhatMergingLeavesAboveTheBudgetIsEvictedByScore) {
  // N = 2; left are 0, 1 (merged) and 3 with keynorm's scores −2, −4 and −10: 3 goes.
  HandMade made = four_tokens(10);
  const HeadReplay head = made.run("keynorm+kvmerger(recent=1,heavy=0)", 2);
  EXPECT_THAT(kept(head), ElementsAre(0, 1));
  EXPECT_EQ(head.steps[0].merges.size(), 1U);
  EXPECT_EQ(head.steps[0].threshold, -4.0F);
  EXPECT_EQ(head.fates[0][3], Fate::evicted);
  // With −1 for the last, the merged entry has the lowest score, and the whole set is evicted.
  HandMade other = four_tokens(1);
  const HeadReplay gone = other.run("keynorm+kvmerger(recent=1,heavy=0)", 2);
  EXPECT_THAT(kept(gone), ElementsAre(0, 3));
  EXPECT_THAT(gone.steps[0].merges, IsEmpty());
  EXPECT_EQ(gone.fates[0][2], Fate::evicted);
}

TEST(KvMerger, HeavyHittersAndProtectedEntriesAreNoCandidates) {
  // heavy=2: tokens 0 and 1, so 2 is alone. Then sinks(2) protects the same.
  HandMade made = four_tokens(1);
  EXPECT_THAT(made.run("sink(0)+kvmerger(recent=1,heavy=2)", 3).steps[0].merges, IsEmpty());
  EXPECT_THAT(made.run("sink(0)+kvmerger(recent=1,heavy=0)+sinks(2)", 3).steps[0].merges,
              IsEmpty());
  EXPECT_EQ(made.run("sink(0)+kvmerger(recent=1,heavy=1)", 3).steps[0].merges.size(), 1U);
}

TEST(KvMerger, AnAutomaticThresholdJoinsNoMoreThanItMust) {
  // N = 3: ε just below cos(k1,k2) = 0.8. N = 2: also 0 joins 2, ε just below 0.6. N = 1: three
  // candidates are one set, and of it and 3 the lower score goes.
  HandMade made = four_tokens(1);
  EXPECT_THAT(made.run("h2o+kvmerger(auto,recent=1,heavy=0)", 3).steps[0].merges[0].from,
              ElementsAre(1, 2));
  const HeadReplay two = made.run("h2o+kvmerger(auto,recent=1,heavy=0)", 2);
  EXPECT_THAT(two.steps[0].merges[0].from, ElementsAre(0, 1, 2));
  EXPECT_EQ(two.steps[0].merges[0].into, 0);
  EXPECT_THAT(kept(two), ElementsAre(0, 3));
  EXPECT_THAT(kept(made.run("h2o+kvmerger(auto,recent=1,heavy=0)", 1)), ElementsAre(0));
}

TEST(KvMerger, TheMergedKeyTakesPartInLaterAttention) {
  // A fourth token, then a step with the query (1,1): over k0 = (0,2), the mean of k1 and k2 =
  // (4,1.5), k3 = (1,0) and k4 = (0,0) its logits are 2, 5.5, 1, 0; values (0,0), the mean of v1
  // and v2 = (0.5,0.5), (0,0), (0,0).
  HandMade made(matrix({{0, 2}, {4, 0}, {4, 3}, {1, 0}, {0, 0}}),
                matrix({{0, 0}, {1, 0}, {0, 1}, {0, 0}, {0, 0}}),
                matrix({{0, 0}, {0, 0}, {0, 0}, {0, 0}, {1, 1}}));
  made.blocks = {{0, 4}, {4, 5}};
  const HeadReplay head =
      made.run("sink(4)+kvmerger(recent=1,heavy=0,weights=mean,value_scale=one)+recent(0)", 4);
  EXPECT_THAT(head.steps[0].merges, IsEmpty());  // n = N
  const HeadReplay after = made.run(
      "sink(0)+kvmerger(recent=1,heavy=0,weights=mean,"
      "value_scale=one)",
      3);
  ASSERT_EQ(after.steps[0].merges.size(), 1U);
  // The second step holds 0, 1 (merged), 3, 4 and keeps three; with sink's scores token 0 goes
  // unless it merges: cos(k0,(4,1.5)) = 0.35, no. Left: 5.5, 1, 0.
  const double full_sum = std::exp(2.0) + std::exp(4.0) + std::exp(7.0) + std::exp(1.0) + 1.0;
  const double sum = std::exp(5.5) + std::exp(1.0) + 1.0;
  const double first = std::exp(4.0) / full_sum - 0.5 * std::exp(5.5) / sum;
  const double second = std::exp(7.0) / full_sum - 0.5 * std::exp(5.5) / sum;
  EXPECT_NEAR(test::metrics_of(after.steps[1])[0].perturbation_l1,
              std::abs(first) + std::abs(second), 1e-5);
}

TEST(KvMerger, BeforeRopeTheKeysAreTurnedToThePivotsPosition) {
  // Keys that are one vector rotated to positions 0, 1, 2 are one key before RoPE: merged at the
  // pivot's position they are the pivot's own key, whatever the weights. θ_0 = 1: one radian a
  // position.
  HandMade made(at_angles({0, 180 / std::numbers::pi, 360 / std::numbers::pi, 0}),
                matrix({{1, 2}, {1, 2}, {1, 2}, {0, 0}}),
                matrix({{3, 1}, {1, 2}, {-1, 1}, {2, -1}}));
  const std::string options = "recent=1,heavy=0,weights=mean,log_size=1";
  // cos(k0,k2) = cos(2) = −0.42.
  const HeadReplay pre = made.run("h2o+kvmerger(-0.5,rotate=pre," + options + ")", 3);
  const HeadReplay post = made.run("h2o+kvmerger(-0.5," + options + ")", 3);
  ASSERT_EQ(pre.steps[0].merges.size(), 1U);
  EXPECT_THAT(pre.steps[0].merges[0].from, ElementsAre(0, 1, 2));
  // The output is (1,2) times the mass of the set: log 3 on the pivot's logit q·k_p = 2 cos − sin
  // at the pivot's angle.
  const double angle = pre.steps[0].merges[0].into;
  const double logit = 2.0 * std::cos(angle) - std::sin(angle);
  const double mass = 3.0 * std::exp(logit) / (3.0 * std::exp(logit) + std::exp(2.0));
  double all = std::exp(2.0), set = 0.0;
  for (const double position : {0.0, 1.0, 2.0}) {
    set += std::exp(2.0 * std::cos(position) - std::sin(position));
  }
  all += set;
  EXPECT_NEAR(test::metrics_of(pre.steps[0])[0].perturbation_l1, 3.0 * std::abs(mass - set / all),
              1e-5);
  EXPECT_GT(std::abs(test::metrics_of(pre.steps[0])[0].perturbation_l1 -
                     test::metrics_of(post.steps[0])[0].perturbation_l1),
            1e-3);
}

/// Row 3 sees nearly only itself: accumulated attention 11/6, 5/6, 1/3 and 1.
HandMade last_sees_itself() {
  return {matrix({{0, 1}, {0, 1}, {0, 1}, {10, 0}}), matrix({{0, 0}, {1, 0}, {0, 1}, {2, 2}}),
          matrix({{0, 0}, {0, 0}, {0, 0}, {100, 0}})};
}

TEST(Cam, SharesValuesOutAmongTheNextKept) {
  // sink(1), N = 2: 1 and 2 go; after both comes 3 alone: p1 = (5/6)/1, p2 = (1/3)/1.
  // v3 = (2,2) + 5/6 (1,0) + 1/3 (0,1).
  HandMade made = last_sees_itself();
  const HeadReplay head = made.run("sink(1)+cam", 2);
  EXPECT_THAT(kept(head), ElementsAre(0, 3));
  const std::vector<Merge> merges = made.merges(head);
  ASSERT_EQ(merges.size(), 1U);
  EXPECT_EQ(merges[0].into, 3);
  EXPECT_THAT(merges[0].from, ElementsAre(1, 2, 3));
  EXPECT_NEAR(merges[0].weights[0], 5.0 / 6.0, 1e-6);
  EXPECT_NEAR(merges[0].weights[1], 1.0 / 3.0, 1e-6);
  EXPECT_EQ(merges[0].weights[2], 1.0F);
  EXPECT_EQ(head.fates[0][1], Fate::merged);
  EXPECT_NEAR(test::metrics_of(head.steps[0])[0].perturbation_l1, 5.0 / 6.0 + 1.0 / 3.0, 1e-5);
}

TEST(Cam, ComparesWithTheMeanOrTheLargest) {
  // N = 3 keeps 0, 2, 3. For 1: the mean of 1/3 and 1 is 2/3, p = 1, half to each; the largest is
  // 1, p = 5/6, 5/12 to each. m = 1: 2 alone, p = 1.
  HandMade made = last_sees_itself();
  const HeadReplay mean = made.run("sink(1)+cam", 3);
  ASSERT_EQ(made.merges(mean).size(), 2U);
  EXPECT_NEAR(made.merges(mean)[0].weights[0], 0.5, 1e-6);
  const HeadReplay largest = made.run("sink(1)+cam(denominator=max)", 3);
  EXPECT_NEAR(made.merges(largest)[1].weights[0], 5.0 / 12.0, 1e-6);
  const HeadReplay one = made.run("sink(1)+cam(1)", 3);
  ASSERT_EQ(made.merges(one).size(), 1U);
  EXPECT_EQ(made.merges(one)[0].into, 2);
}

TEST(Cam, ATieWithTheHeirsGivesAllAndNoAttentionNothing) {
  // Attention uniform over what is seen: accumulated 25/12, 13/12, 7/12, 1/4. sink(0), N = 1 keeps
  // 3: each of the others has received at least as much as its heir: p = 1, v3 = v0 + v1 + v2.
  HandMade made = four_tokens(0.0F);
  const HeadReplay all = made.run("sink(0)+cam", 1);
  EXPECT_THAT(kept(all), ElementsAre(3));
  ASSERT_EQ(made.merges(all).size(), 1U);
  EXPECT_THAT(made.merges(all)[0].weights, ElementsAre(1.0F, 1.0F, 1.0F, 1.0F));
  // One token and N = 1: nothing leaves.
  made.blocks = {{0, 1}};
  EXPECT_THAT(made.merges(made.run("sink(0)+cam", 1)), IsEmpty());
  // Token 1 has a logit of −1000 beside 0 and 2, whose logits are 0: no row pays it anything, its
  // own neither, so p = 0 and it is evicted without a trace.
  HandMade unseen{matrix({{0, 0}, {-10, 0}, {0, 0}}), matrix({{0, 0}, {5, 5}, {1, 0}}),
                  matrix({{100, 0}, {100, 0}, {100, 0}})};
  const HeadReplay none = unseen.run("sink(1)+cam", 2);
  EXPECT_THAT(kept(none), ElementsAre(0, 2));
  EXPECT_THAT(unseen.merges(none), IsEmpty());
  EXPECT_EQ(none.fates[0][1], Fate::evicted);
}

TEST(Cam, MemoryIsOneLinePerGiver) {
  // 0 and 1 leave, and each gives to 2 and 3.
  HandMade made = four_tokens(0.0F);
  const HeadReplay head = made.run("sink(0)+cam", 2);  // keeps 2 and 3
  ASSERT_EQ(head.steps[0].gifts.size(), 2U);
  EXPECT_EQ(head.steps[0].gifts[0].from, 0);
  EXPECT_EQ(head.steps[0].gifts[0].heirs, 2);
  EXPECT_FLOAT_EQ(head.steps[0].gifts[0].weight, 0.5F);  // p = 1, shared by two
  EXPECT_THAT(head.steps[0].merges, IsEmpty());
  ASSERT_EQ(made.merges(head).size(), 2U);
  EXPECT_THAT(made.merges(head)[1].from, ElementsAre(0, 1, 3));
}

TEST(Cam, EvictedWithoutHeirsIsLost) {
  // keynorm keeps the short keys: N = 3 evicts 3, after which nothing is kept.
  HandMade made = last_sees_itself();
  const HeadReplay head = made.run("keynorm+cam", 3);
  EXPECT_THAT(kept(head), ElementsAre(0, 1, 2));
  EXPECT_THAT(made.merges(head), IsEmpty());
  EXPECT_EQ(head.fates[0][3], Fate::evicted);
}

/// Made-up states of one layer, in memory.
struct Made : test::MadeLayerReplays {
  explicit Made(int block = 16, int clusters = 3)
      : MadeLayerReplays({.layers = 1, .prompt_length = 96, .generated = 6, .clusters = clusters}),
        block_(block) {
    scores_head_ = 0;
  }
  Replay run(const std::string& spec, int budget) const {
    return MadeLayerReplays::run(spec, budget, block_);
  }

  int block_;
};

const std::vector<std::string>& merging_specs() {
  static const std::vector<std::string> specs = {
      "h2o+kvmerger",
      "h2o+kvmerger(auto)",
      "keydiff+kvmerger(0.3,link=chain,pivot=random)",
      "snapkv(8)+kvmerger(auto,rotate=pre,sigma=dist)+sinks(2)",
      "random+kvmerger(auto,log_size=1,recent=4,heavy=3)",
      "h2o+cam",
      "keydiff+cam(4,sample=bernoulli,denominator=max)",
  };
  return specs;
}

TEST(Merging, SetsAreDisjointAndTheirMembersLeaveAtOnce) {
  const Made made;
  int merges = 0;
  for (const std::string& spec : merging_specs()) {
    const bool gifts = spec.find("cam") != std::string::npos;
    const Replay replay = made.run(spec, 24);
    for (const HeadReplay& head : replay.heads) {
      for (std::size_t s = 0; s < head.steps.size(); ++s) {
        const int step = static_cast<int>(s);
        ASSERT_LE(head.steps[s].retained, 24) << spec;
        const auto cache = replay.tokens_at(head, step);
        const auto retained = replay.retained_at(head, step);
        std::vector<int> members;
        for (const Merge& merge : replay.merges_at(head, step)) {
          ++merges;
          ASSERT_TRUE(std::is_sorted(merge.from.begin(), merge.from.end()));
          ASSERT_EQ(merge.weights.size(), merge.from.size());
          ASSERT_GE(merge.from.size(), 2U);
          ASSERT_TRUE(std::binary_search(retained.begin(), retained.end(), merge.into));
          double sum = 0.0;
          for (std::size_t i = 0; i < merge.from.size(); ++i) {
            const int token = merge.from[i];
            ASSERT_TRUE(std::binary_search(cache.begin(), cache.end(), token));
            if (token != merge.into) {
              ASSERT_EQ(head.evicted_at[token], step);
            }
            members.push_back(token);
            sum += static_cast<double>(merge.weights[i]);
          }
          if (!gifts) {
            ASSERT_NEAR(sum, 1.0, 1e-5);
          }
        }
        if (gifts) continue;
        std::sort(members.begin(), members.end());
        ASSERT_EQ(std::adjacent_find(members.begin(), members.end()), members.end()) << spec;
      }
    }
  }
  EXPECT_GT(merges, 500);
}

TEST(Merging, SetsRespectTheThresholdAndAreNeighboursAmongTheCandidates) {
  const Made made;
  for (const char* link : {"anchor", "chain"}) {
    for (const double epsilon : {0.2, 0.5, 0.9}) {
      const int heavy = 5;
      const Replay replay = made.run(
          "random+kvmerger(" + std::to_string(epsilon) + ",link=" + link + ",recent=4,heavy=5)",
          44);
      for (const HeadReplay& head : replay.heads) {
        const Matrix& keys = made.states_.keys[head.head];
        const auto cosine = [&](int a, int b) {
          return keys.row(a).cast<double>().dot(keys.row(b).cast<double>()) /
                 (keys.row(a).cast<double>().norm() * keys.row(b).cast<double>().norm());
        };
        const std::size_t step = 2;  // the first eviction: keys are still those of the trace
        ASSERT_EQ(head.steps[step].cache_size, 48);
        for (const Merge& merge : head.steps[step].merges) {
          for (std::size_t i = 0; i + 1 < merge.from.size(); ++i) {
            const int with = link == std::string("chain") ? merge.from[i + 1] : merge.from.back();
            ASSERT_GT(cosine(merge.from[i], with), epsilon);
          }
          // Between the members lie no other members, and no more than the heavy hitters.
          ASSERT_LE(merge.from.back() - merge.from.front() + 1,
                    static_cast<int>(merge.from.size()) + heavy);
          ASSERT_LT(merge.from.back(), 48 - 4);
          for (const Merge& other : head.steps[step].merges) {
            ASSERT_TRUE(&other == &merge || other.from.back() < merge.from.front() ||
                        other.from.front() > merge.from.back());
          }
        }
      }
    }
  }
}

TEST(Merging, IdenticalMembersWithLogSizeChangeNothing) {
  // Runs of four tokens with one key and value; 24 runs and what was generated since.
  Made made;
  for (std::size_t head = 0; head < made.states_.keys.size(); ++head) {
    for (Eigen::Index i = 0; i < 96; ++i) {
      made.states_.keys[head].row(i) = made.states_.keys[head].row(i - i % 4);
      made.states_.values[head].row(i) = made.states_.values[head].row(i - i % 4);
    }
  }
  for (const char* spec : {"random+kvmerger(0.999999,log_size=1,recent=0,heavy=0)",
                           "random+kvmerger(0.999999,log_size=1,recent=0,heavy=0,weights=mean)",
                           "random+kvmerger(0.999999,log_size=1,recent=3,heavy=0,pivot=last)"}) {
    const Replay replay = made.run(spec, 31);
    long merged = 0;
    for (const HeadReplay& head : replay.heads) {
      for (const StepRecord& step : head.steps) {
        merged += static_cast<long>(step.merges.size());
        for (const QueryHeadMetrics& metrics : test::metrics_of(step)) {
          ASSERT_LT(metrics.perturbation_l1, 2e-5) << spec;
        }
      }
    }
    EXPECT_GT(merged, 40) << spec;
  }
}

TEST(Merging, IsDeterministicAndSeeded) {
  const Made made;
  const auto drawn = [&](const std::string& spec) {
    std::vector<float> weights;
    const Replay replay = made.run(spec, 20);
    for (const HeadReplay& head : replay.heads) {
      for (int step = 0; step < static_cast<int>(head.steps.size()); ++step) {
        for (const Merge& merge : replay.merges_at(head, step)) {
          weights.insert(weights.end(), merge.weights.begin(), merge.weights.end());
        }
      }
    }
    return weights;
  };
  for (const std::string& spec : merging_specs()) EXPECT_EQ(drawn(spec), drawn(spec));
  EXPECT_NE(drawn("h2o+cam(sample=bernoulli)"), drawn("h2o+cam(sample=bernoulli,seed=1)"));
  EXPECT_EQ(drawn("h2o+cam"), drawn("h2o+cam(seed=1)"));
}

TEST(Merging, IsWrittenAsJson) {
  const Made made;
  const Replay replay = made.run("h2o+kvmerger(auto)", 24);
  const auto document = nlohmann::json::parse(test::json_of(replay));
  const auto& step = document["heads"][1]["steps"][3];
  const auto& merges = replay.heads[1].steps[3].merges;
  ASSERT_FALSE(merges.empty());
  ASSERT_EQ(step["merged"].size(), merges.size());
  EXPECT_EQ(step["merged"][0]["into"], merges[0].into);
  EXPECT_EQ(step["merged"][0]["from"].get<std::vector<int>>(), merges[0].from);
  EXPECT_EQ(step["merged"][0]["weights"].get<std::vector<float>>(), merges[0].weights);
  const MergeMeasures& measures = replay.heads[1].steps[3].merge_measures.at(0);
  EXPECT_DOUBLE_EQ(step["merged"][0]["least_cosine"], measures.least_cosine);
  EXPECT_DOUBLE_EQ(step["merged"][0]["effective_members"], measures.effective_members);
  EXPECT_DOUBLE_EQ(step["merged"][0]["mean_member_cosine"], measures.mean_member_cosine);
  EXPECT_LE(measures.least_member_cosine, measures.mean_member_cosine);
  EXPECT_TRUE(step["metrics"]["query_heads"][0]["bound_l1"].is_null());
  EXPECT_TRUE(step["metrics"]["query_heads"][0]["perturbation_l1"].is_number());
}

TEST(Merging, GiftsAreWrittenAsJsonWithoutMeasuresOfKeys) {
  const Made made;
  const Replay replay = made.run("h2o+cam", 24);
  const auto step = nlohmann::json::parse(test::json_of(replay))["heads"][1]["steps"][3];
  const std::vector<Merge> merges = replay.merges_at(replay.heads[1], 3);
  ASSERT_FALSE(merges.empty());
  ASSERT_EQ(step["merged"].size(), merges.size());
  EXPECT_EQ(step["merged"][0]["from"].get<std::vector<int>>(), merges[0].from);
  EXPECT_EQ(step["merged"][0]["weights"].get<std::vector<float>>(), merges[0].weights);
  EXPECT_TRUE(step["merged"][0]["least_cosine"].is_null());
  EXPECT_FALSE(step["metrics"].contains("merge_threshold"));
}

TEST(Merging, TheThresholdInForceStandsInTheJson) {
  const Made made;
  for (const std::string spec : {"h2o+kvmerger(auto)", "h2o+kvmerger(0.25)"}) {
    const Replay replay = made.run(spec, 24);
    const auto document = nlohmann::json::parse(test::json_of(replay));
    int told = 0;
    for (std::size_t h = 0; h < replay.heads.size(); ++h) {
      for (std::size_t s = 0; s < replay.heads[h].steps.size(); ++s) {
        const StepRecord& record = replay.heads[h].steps[s];
        const auto& metrics = document["heads"][h]["steps"][s]["metrics"];
        ASSERT_EQ(metrics.contains("merge_threshold"), record.cache_size > 24);
        if (record.cache_size <= 24) continue;
        ++told;
        const double epsilon = metrics["merge_threshold"].get<double>();
        ASSERT_EQ(epsilon, record.merge_threshold);
        if (spec == "h2o+kvmerger(0.25)") {
          ASSERT_EQ(epsilon, 0.25);
          continue;
        }
        // The cosine of a set of two is above ε, so the largest ε cannot be above it.
        ASSERT_LE(epsilon, 1.0);
        for (std::size_t i = 0; i < record.merges.size(); ++i) {
          if (record.merges[i].from.size() == 2) {
            ASSERT_GT(record.merge_measures[i].least_cosine, epsilon - 1e-6);
          }
        }
      }
    }
    EXPECT_GT(told, 10);
  }
}

TEST(Merging, WhatMakesNoSenseIsRefused) {
  const Made made;
  const auto problem = [&](const std::string& spec) -> std::string {
    return test::error_of<UsageError>([&] { made.run(spec, 10); }, "accepted");
  };
  EXPECT_THAT(problem("full+kvmerger"), HasSubstr("remove the modifiers"));
  EXPECT_THAT(problem("external(\"x\")+cam"), HasSubstr("remove the modifiers"));
  EXPECT_THAT(problem("h2o+kvmerger+cam"), HasSubstr("both merge"));
  EXPECT_THAT(problem("tova(layer)+kvmerger"), HasSubstr("one set for the heads"));
  EXPECT_EQ(problem("tova(layer)+cam"), "accepted");
  EXPECT_THAT(problem("h2o+kvmerger(automatic)"), HasSubstr("'auto'"));
  EXPECT_THAT(problem("h2o+kvmerger(2)"), HasSubstr("out of range"));
  EXPECT_EQ(parse_policy("h2o+kvmerger(threshold=auto,sigma=eq6)").text(),
            "h2o+kvmerger(auto,sigma=eq6)");
}

TEST(Merging, ABudgetThatIsNotUsedIsNoted) {
  test::MadeTrace made_trace({.clusters = 2});
  const Trace& trace = made_trace.trace();
  const auto notes = [&](const std::string& spec) {
    ReplayRequest request{.policy = parse_policy(spec), .budget = 30, .metrics = false};
    const Replay result = replay(trace, request, test::unwatched);
    std::string all;
    for (const std::string& note : result.notes) all += note + "\n";
    return all;
  };
  EXPECT_THAT(notes("random+kvmerger(-1)"), HasSubstr("fewer entries than the budget are left"));
  EXPECT_THAT(notes("random+cam"), Not(HasSubstr("fewer")));
}

TEST(Merging, NotesSayWhatIsDoubtful) {
  const ModelInfo model = Made().made_.model;
  const auto notes = [&](const std::string& spec) {
    std::string all;
    for (const std::string& note : policy_notes(parse_policy(spec), model, 10)) all += note + "\n";
    return all;
  };
  EXPECT_THAT(notes("h2o+kvmerger(sigma=eq6)"), HasSubstr("eq. 6"));
  EXPECT_THAT(notes("h2o+kvmerger"), HasSubstr("not the rotation of any key"));
  EXPECT_THAT(notes("h2o+kvmerger(auto)"), Not(HasSubstr("with a fixed threshold")));
  EXPECT_THAT(notes("h2o+cam"), HasSubstr("bound"));
  EXPECT_THAT(notes("h2o+kvmerger"), HasSubstr("multiplies by |S|"));
  EXPECT_THAT(notes("h2o+kvmerger(value_scale=one)"), Not(HasSubstr("multiplies by |S|")));
}

// Measures of merging, beside plain loops in double.

double naive_cosine(const float* a, const float* b, Eigen::Index d) {
  double dot = 0.0, a_square = 0.0, b_square = 0.0;
  for (Eigen::Index c = 0; c < d; ++c) {
    dot += static_cast<double>(a[c]) * static_cast<double>(b[c]);
    a_square += static_cast<double>(a[c]) * static_cast<double>(a[c]);
    b_square += static_cast<double>(b[c]) * static_cast<double>(b[c]);
  }
  return a_square > 0.0 && b_square > 0.0 ? dot / std::sqrt(a_square * b_square) : 0.0;
}

TEST(MergeMeasures, ByHand) {
  // Keys (1,0), (0,2), (3,3); weights 1/2, 1/4, 1/4; merged (1.25, 1.25).
  // Least cosine: of the first two, 0. 1/(1/4 + 1/16 + 1/16) = 8/3. The merged key points at 45°:
  // cosines √½, √½, 1.
  Matrix keys(3, 2);
  keys << 1, 0, 0, 2, 3, 3;
  const std::vector<int> members = {0, 1, 2};
  const std::vector<float> weights = {0.5F, 0.25F, 0.25F}, merged = {1.25F, 1.25F};
  const MergeMeasures measures = merge_measures(view(keys), members, weights, merged);
  EXPECT_NEAR(measures.least_cosine, 0.0, 1e-12);
  EXPECT_NEAR(measures.effective_members, 8.0 / 3.0, 1e-12);
  EXPECT_NEAR(measures.least_member_cosine, std::sqrt(0.5), 1e-12);
  EXPECT_NEAR(measures.mean_member_cosine, (1.0 + 2.0 * std::sqrt(0.5)) / 3.0, 1e-12);
}

TEST(MergeMeasures, EqualTheNaiveOnes) {
  for (const int size : {1, 2, 5, 64, 130}) {
    Matrix keys = test::random_matrix(200, 12, static_cast<unsigned>(size));
    if (size == 5) keys.row(6).setZero();
    std::vector<int> members;
    std::vector<float> weights;
    std::vector<float> merged(12, 0.0F);
    for (int i = 0; i < size; ++i) {
      members.push_back(3 + i);
      weights.push_back(1.0F / static_cast<float>(size));
      for (int c = 0; c < 12; ++c) {
        merged[c] += weights.back() * keys(3 + i, c);
      }
    }
    const MergeMeasures fast = merge_measures(view(keys), members, weights, merged);
    double least = 1.0, least_merged = 1.0, sum = 0.0;
    for (const int a : members) {
      for (const int b : members) {
        if (a != b) least = std::min(least, naive_cosine(&keys(a, 0), &keys(b, 0), 12));
      }
      const double cosine = naive_cosine(&keys(a, 0), merged.data(), 12);
      least_merged = std::min(least_merged, cosine);
      sum += cosine;
    }
    EXPECT_NEAR(fast.least_cosine, least, 1e-12) << size;
    EXPECT_NEAR(fast.least_member_cosine, least_merged, 1e-12);
    EXPECT_NEAR(fast.mean_member_cosine, sum / size, 1e-12);
    EXPECT_NEAR(fast.effective_members, size, 1e-4 * size);
  }
}

TEST(LocalSimilarity, EqualsTheNaiveOne) {
  Matrix rows = test::random_matrix(40, 9, 4);
  rows.row(17).setZero();
  const std::vector<double> mean = mean_local_similarity(view(rows), 45);
  ASSERT_EQ(mean.size(), 45U);
  for (int distance = 1; distance <= 45; ++distance) {
    double sum = 0.0;
    int pairs = 0;
    for (int i = distance; i < 40; ++i) {
      const double cosine = naive_cosine(&rows(i, 0), &rows(i - distance, 0), 9);
      sum += cosine;
      ++pairs;
      ASSERT_NEAR(local_similarity(view(rows), i, 45)[distance - 1], cosine, 1e-12);
    }
    const double value = mean[distance - 1];
    if (pairs == 0) {
      EXPECT_TRUE(std::isnan(value));
    } else {
      EXPECT_NEAR(value, sum / pairs, 1e-12);
    }
  }
  EXPECT_TRUE(std::isnan(local_similarity(view(rows), 3, 4)[3]));
}

TEST(LayerCompression, IsWhatIsLeftOfWhatWasSeen) {
  // Layer 2: heads with 4 and 6 of 8; layer 5: 8 of 8 in one head.
  Replay replay;
  replay.blocks = {{0, 4}, {4, 8}};
  const auto head = [](int layer, int number, int first, int second) {
    HeadReplay result;
    result.layer = layer;
    result.head = number;
    result.steps.resize(2);
    result.steps[0].retained = first;
    result.steps[1].retained = second;
    return result;
  };
  replay.heads = {head(2, 0, 4, 4), head(2, 1, 3, 6), head(5, 0, 4, 8)};
  const auto layers = layer_compression(replay, 1);
  ASSERT_EQ(layers.size(), 2U);
  EXPECT_EQ(layers[0].layer, 2);
  EXPECT_DOUBLE_EQ(layers[0].mean, 0.625);
  EXPECT_DOUBLE_EQ(layers[0].least, 0.5);
  EXPECT_DOUBLE_EQ(layers[0].most, 0.75);
  EXPECT_DOUBLE_EQ(layers[1].mean, 1.0);
  EXPECT_DOUBLE_EQ(layer_compression(replay, 0)[0].mean, 0.875);
  EXPECT_THROW(layer_compression(replay, 2), std::out_of_range);
}

}  // namespace
}  // namespace kvloupe
