// Policies that read values, on a few entries, with the arithmetic in a comment.

#include "analysis/policy/kit/value_aware_score.h"
#include "tests/support/test.h"

namespace kvloupe {
namespace {

using testing::DoubleEq;

Matrix column(std::initializer_list<float> values) {
  Matrix result(static_cast<Eigen::Index>(values.size()), 1);
  Eigen::Index row = 0;
  for (const float value : values) result(row++, 0) = value;
  return result;
}

std::vector<double> caote(const std::vector<double>& h, const Matrix& values) {
  return caote_scores(h, view(values));
}
std::vector<double> fastcaote(const std::vector<double>& h, const Matrix& values) {
  return fastcaote_scores(h, view(values));
}

TEST(Caote, IsTheChangeOfTheOutputWithoutTheEntry) {
  // o = 0.5·0 + 0.25·4 + 0.25·8 = 3. Without entry 0: (1 + 2)/0.5 = 6, a change of 3. Without 1:
  // 2/0.75 = 8/3, 1/3. Without 2: 1/0.75 = 4/3, 5/3.
  const auto c = caote({.5, .25, .25}, column({0, 4, 8}));
  EXPECT_THAT(
      c, ElementsAre(DoubleNear(3, 1e-15), DoubleNear(1.0 / 3, 1e-15), DoubleNear(5.0 / 3, 1e-15)));
  // The mean of the values is 4: 1·4, 1/3·0, 1/3·4.
  const auto fast = fastcaote({.5, .25, .25}, column({0, 4, 8}));
  EXPECT_THAT(fast, ElementsAre(DoubleEq(4), DoubleEq(0), DoubleNear(4.0 / 3, 1e-15)));
}

TEST(Caote, APureSinkIsNeverEvicted) {
  // 1 − h = 0: nothing is left without entry 0; the others carry nothing.
  const double never = std::numeric_limits<double>::infinity();
  EXPECT_THAT(caote({1, 0, 0}, column({0, 4, 8})), ElementsAre(never, 0, 0));
  // fastcaote: 1/1e-6·|4 − 0|.
  EXPECT_THAT(fastcaote({1, 0, 0}, column({0, 4, 8})), ElementsAre(DoubleNear(4e6, 1e-6), 0, 0));
  // One token.
  EXPECT_THAT(caote({1}, column({3})), ElementsAre(never));
  EXPECT_THAT(fastcaote({1}, column({3})), ElementsAre(0));
}

TEST(Caote, DoesNotCancelNextToAPureSink) {
  // Entries 1 and 2 share what is left equally: without the sink the output is (4 + 8)/2 = 6. From
  // 1 − h it would be off by 1e-16/2e-14, half a percent.
  const double rest = 1e-14;
  const auto c = caote({1 - 2 * rest, rest, rest}, column({0, 4, 8}));
  EXPECT_NEAR(c[0], 6, 1e-12);
  EXPECT_NEAR(c[1] / (rest * 4), 1, 1e-12);
  EXPECT_NEAR(c[2] / (rest * 8), 1, 1e-12);
}

TEST(Caote, EqualsTheTrueChangeOfAQueryHeadInDouble) {
  std::mt19937 random(3);
  std::normal_distribution<double> normal;
  for (int round = 0; round < 200; ++round) {
    const int n = 2 + static_cast<int>(random() % 15);
    const double sharpness = 0.5 + static_cast<double>(round % 20);
    Matrix values(n, 6);
    for (float& v : values.reshaped()) v = static_cast<float>(normal(random));
    std::vector<double> h(static_cast<std::size_t>(n));
    double sum = 0.0;
    for (double& x : h) sum += x = std::exp(sharpness * normal(random));
    for (double& x : h) x /= sum;
    const std::vector<double> c = caote(h, values);
    for (int j = 0; j < n; ++j) {
      Eigen::VectorXd full = Eigen::VectorXd::Zero(6), cut = full;
      double others = 0.0;
      for (int i = 0; i < n; ++i) {
        const double share = h[i];
        full += share * values.row(i).cast<double>().transpose();
        if (i == j) continue;
        cut += share * values.row(i).cast<double>().transpose();
        others += share;
      }
      const double change = (full - cut / others).norm();
      // If the others have hardly any mass, the true change itself is hard to compute.
      ASSERT_NEAR(c[j], change, 1e-9 * std::max(change, 1.0));
    }
  }
}

TEST(Caote, ScoresBecomeAttention) {
  EXPECT_THAT(as_attention(std::vector<float>{1, 3, 0}), ElementsAre(.25, .75, 0));
  // Shifted by −3 to 0, 2, 3: some is negative.
  EXPECT_THAT(as_attention(std::vector<float>{-3, -1, 0}),
              ElementsAre(0, DoubleEq(.4), DoubleEq(.6)));
  // All zero, or all the same and negative: 1/n.
  EXPECT_THAT(as_attention(std::vector<float>{0, 0}), ElementsAre(.5, .5));
  EXPECT_THAT(as_attention(std::vector<float>{-2, -2}), ElementsAre(.5, .5));
  EXPECT_TRUE(as_attention({}).empty());
}

TEST(Caote, EqualValuesMakeEveryEntryIdle) {
  EXPECT_THAT(caote({.5, .3, .2}, column({7, 7, 7})), Each(DoubleNear(0, 1e-14)));
}

/// The entries that critical keeps, one head; weights [Hq] of [d,D].
std::vector<Fate> critical(const std::string& spec, const std::vector<float>& scores,
                           const Matrix& values, const std::vector<Matrix>& weights, int count,
                           double rows_summed = 1.0, std::vector<Fate> fates = {}) {
  LayerContext context;
  context.model.num_kv_heads = 1;
  context.model.num_heads = static_cast<int>(weights.size());
  const std::vector<OutputWeight> stored(weights.begin(), weights.end());
  context.output_weights = stored;
  const PolicySpec parsed = parse_policy(spec);
  const auto selection =
      find_policy("critical")->as<SelectionBuilder>()->make(*parsed.find("critical"), context);
  EXPECT_TRUE(selection->needs_values());
  std::vector<std::int32_t> tokens(scores.size());
  std::iota(tokens.begin(), tokens.end(), 0);
  StepView step;
  step.caches.push_back({tokens, view(values), view(values), {}});
  HeadDecision decision;
  decision.scores = scores;
  decision.fates = fates.empty() ? std::vector<Fate>(scores.size(), Fate::evicted) : fates;
  selection->select(step, 0, count, rows_summed, decision);
  return decision.fates;
}

constexpr Fate kOut = Fate::evicted;
constexpr Fate kOne = Fate::by_score;
constexpr Fate kTwo = Fate::by_second_stage;
const std::vector<Matrix> kIdentity = {column({1})};

TEST(Critical, HalfByScoreThenByScoreTimesOutput) {
  // b = 3: ⌊0.5·3⌋ = 1 by score: entry 0. For the rest (s + 1e-4)·|v|: 0.3001, 0.3002, 0.9009,
  // 1.503: entries 4 and 3.
  const std::vector<float> s = {.4F, .3F, .15F, .1F, .05F};
  const Matrix v = column({1, 1, 2, 9, 30});
  EXPECT_THAT(critical("tova+critical", s, v, kIdentity, 3),
              ElementsAre(kOne, kOut, kOut, kTwo, kTwo));
  EXPECT_THAT(critical("tova+critical(0)", s, v, kIdentity, 3),
              ElementsAre(kTwo, kOut, kOut, kTwo, kTwo));  // entry 0 has 0.4001
  EXPECT_THAT(critical("tova+critical(1)", s, v, kIdentity, 3),
              ElementsAre(kOne, kOne, kOne, kOut, kOut));
  EXPECT_THAT(critical("tova+critical", s, v, kIdentity, 1),
              ElementsAre(kOut, kOut, kOut, kOut, kTwo));  // ⌊0.5⌋ = 0 by score
  EXPECT_THAT(critical("tova+critical", s, v, kIdentity, 0), Each(kOut));
}

TEST(Critical, ProtectedEntriesStandApart) {
  // Entry 4 is protected; b = 2: entry 0 by score, entry 3 by product.
  EXPECT_THAT(critical("tova+critical", {.4F, .3F, .15F, .1F, .05F}, column({1, 1, 2, 9, 30}),
                       kIdentity, 2, 1.0, {kOut, kOut, kOut, kOut, Fate::recent}),
              ElementsAre(kOne, kOut, kOut, kTwo, Fate::recent));
}

TEST(Critical, EpsilonLetsLargeValuesIn) {
  // For the rest: 0.1001·1, 1e-4·500 = 0.05, 1e-4; with eps = 0.01 0.11, 5, 0.01.
  const std::vector<float> s = {.9F, .1F, 0, 0};
  const Matrix v = column({1, 1, 500, 1});
  EXPECT_THAT(critical("tova+critical", s, v, kIdentity, 2), ElementsAre(kOne, kTwo, kOut, kOut));
  EXPECT_THAT(critical("tova+critical(eps=0.01)", s, v, kIdentity, 2),
              ElementsAre(kOne, kOut, kTwo, kOut));
  // Sums over 100 rows are divided by them, so that eps keeps its meaning: 90 and 10 are the same.
  EXPECT_THAT(critical("tova+critical", {90, 10, 0, 0}, v, kIdentity, 2, 100.0),
              ElementsAre(kOne, kTwo, kOut, kOut));
}

TEST(Critical, NormsAreMeansOverTheGroup) {
  Matrix values(2, 2);
  values << 1, 0, 0, 1;
  Matrix weight(2, 2);
  weight << 3, 4, 6, 0;
  // L1: 7 and 6; L2: 5 and 6.
  EXPECT_THAT(critical("tova+critical(0)", {.5F, .5F}, values, {weight}, 1),
              ElementsAre(kTwo, kOut));
  EXPECT_THAT(critical("tova+critical(0,norm=l2)", {.5F, .5F}, values, {weight}, 1),
              ElementsAre(kOut, kTwo));
  // A second query head with L1 0 and 2: means 3.5 and 4.
  Matrix other(2, 2);
  other << 0, 0, 2, 0;
  EXPECT_THAT(critical("tova+critical(0)", {.5F, .5F}, values, {weight, other}, 1),
              ElementsAre(kOut, kTwo));
}

TEST(Critical, NegativeScoresAreShiftedSoThatValuesDoNotCountAgainst) {
  // −1, −2, −3 become 2, 1, 0: products 2, 30, 0; unshifted −1, −60, −3 entry 1 would be the worst.
  EXPECT_THAT(critical("keydiff+critical(0,eps=0)", {-1, -2, -3}, column({1, 30, 1}), kIdentity, 1),
              ElementsAre(kOut, kTwo, kOut));
}

TEST(Critical, TiesGoToTheLaterToken) {
  EXPECT_THAT(critical("tova+critical", {0, 0, 0, 0}, column({1, 1, 1, 1}), kIdentity, 2),
              ElementsAre(kOut, kOut, kTwo, kOne));
}

TEST(ValueAware, CombinationsThatMakeNoSenseAreRefusedWithTheReason) {
  const auto refusal = [](const std::string& spec) -> std::string {
    return test::error_of<UsageError>([&] { parse_policy(spec); }, "accepted");
  };
  EXPECT_THAT(refusal("tova(layer)+critical"), HasSubstr("'critical' at column 13: tova(layer)"));
  EXPECT_THAT(refusal("tova(layer)+caote"), HasSubstr("'caote' at column 13"));
  EXPECT_THAT(refusal("tova(layer)+fastcaote"), HasSubstr("'fastcaote' at column 13"));
  EXPECT_THAT(refusal("h2o+caote+fastcaote"), HasSubstr("'caote' at column 5: cannot be combined"));
  EXPECT_EQ(refusal("tova(layer)+recent"), "accepted");
}

TEST(ValueAware, DoubtfulCombinationsCarryANote) {
  ModelInfo model{.num_layers = 1, .num_heads = 2, .num_kv_heads = 2};
  const auto notes = [&](const char* spec) { return policy_notes(parse_policy(spec), model, 100); };
  for (const char* spec :
       {"h2o+caote", "snapkv(8)+critical", "tova+fastcaote+critical", "snapkv(8)+adakv+critical"}) {
    EXPECT_TRUE(notes(spec).empty()) << spec;
  }
  EXPECT_THAT(notes("keydiff+critical")[0], HasSubstr("shifted by their minimum"));
  EXPECT_THAT(notes("keynorm+caote")[0], HasSubstr("shifted by their minimum"));
  EXPECT_THAT(notes("sink+fastcaote")[0], HasSubstr("but sink is not attention"));
  model.num_kv_heads = 1;
  EXPECT_THAT(notes("h2o+caote")[0], HasSubstr("approximation"));
}

TEST(ValueAware, WithoutOutputWeightsCriticalSaysSo) {
  LayerContext context{.layer = 3};
  context.model.num_kv_heads = context.model.num_heads = 1;
  context.budget = 5;
  EXPECT_THAT(
      test::error_of<WorkError>([&] { make_layer_policy(parse_policy("tova+critical"), context); }),
      HasSubstr("critical needs the output weights of layer 3"));
  EXPECT_TRUE(make_layer_policy(parse_policy("tova+caote"), context)->needs_values());
}

}  // namespace
}  // namespace kvloupe
