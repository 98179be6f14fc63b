// Each policy on a few entries, with the arithmetic in a comment. Attention rows are given by hand.

#include "tests/support/given_attention.h"
#include "tests/support/test.h"

namespace kvloupe {
namespace {

using test::GivenAttention;
using test::matrix;

/// One layer whose caches the test fills step by step. Heads have keys of their own; values are not
/// needed by any policy here.
class Bench {
 public:
  Bench(const std::string& spec, int budget, int heads = 1, int query_heads = 1, int head_dim = 2) {
    context_.model.num_layers = 1;
    context_.model.num_heads = query_heads;
    context_.model.num_kv_heads = heads;
    context_.model.head_dim = head_dim;
    context_.budget = budget;
    context_.attention = 1.0;
    policy_ = make_layer_policy(parse_policy(spec), context_, {.always_score = true});
    tokens_.resize(static_cast<std::size_t>(heads));
    keys_.resize(static_cast<std::size_t>(heads));
  }

  /// A step of m new tokens: keys [Hk] of [m,d], attention [Hq] of [rows,n].
  const std::vector<HeadDecision>& step(std::vector<Matrix> keys,
                                        std::vector<Matrix> attention = {}) {
    const int m = static_cast<int>(keys.front().rows());
    StepView view;
    view.step = step_++;
    view.block = {next_, next_ + m};
    for (std::size_t head = 0; head < keys_.size(); ++head) {
      Matrix all(keys_[head].rows() + m, keys[head].cols());
      if (keys_[head].rows() > 0) all.topRows(keys_[head].rows()) = keys_[head];
      all.bottomRows(m) = keys[head];
      keys_[head] = all;
      for (int i = 0; i < m; ++i) tokens_[head].push_back(next_ + i);
    }
    next_ += m;
    for (std::size_t head = 0; head < keys_.size(); ++head) {
      view.caches.push_back({tokens_[head], kvloupe::view(keys_[head]), kvloupe::view(none_), {}});
    }
    for (int i = 0; i < context_.model.num_heads; ++i) view.queries.push_back(kvloupe::view(none_));
    attention_.rows = std::move(attention);
    view.attention = &attention_;
    decisions_ = policy_->step(view);
    for (std::size_t head = 0; head < keys_.size(); ++head) {
      const auto& kept = decisions_[head].kept;
      Matrix left(static_cast<Eigen::Index>(kept.size()), keys_[head].cols());
      std::vector<std::int32_t> tokens;
      for (std::size_t j = 0; j < kept.size(); ++j) {
        left.row(static_cast<Eigen::Index>(j)) = keys_[head].row(kept[j]);
        tokens.push_back(tokens_[head][kept[j]]);
      }
      keys_[head] = left;
      tokens_[head] = tokens;
    }
    return decisions_;
  }
  const std::vector<std::int32_t>& tokens(int head = 0) const { return tokens_[head]; }
  const HeadDecision& decision(int head = 0) const { return decisions_[head]; }

 private:
  LayerContext context_;
  std::unique_ptr<LayerPolicy> policy_;
  std::vector<std::vector<std::int32_t>> tokens_;
  std::vector<Matrix> keys_;
  GivenAttention attention_;
  std::vector<HeadDecision> decisions_;
  Matrix none_ = Matrix(0, 2);
  int step_ = 0;
  int next_ = 0;
};

Matrix some_keys(int m) { return Matrix::Ones(m, 2); }

/// One step that brings all entries, by keys or by attention, and what stays of it.
struct OneStep {
  const char* spec;
  int budget;
  Matrix keys;                    // of one head
  std::vector<Matrix> attention;  // [Hq] of [rows,n]
  std::vector<int> kept;
  std::vector<float> scores = {};  // empty: there are none to check
  int ties = 0;
};

void PrintTo(const OneStep& one, std::ostream* out) { *out << one.spec << " " << one.budget; }

class OfOneStep : public testing::TestWithParam<OneStep> {};

TEST_P(OfOneStep, KeepsWhatTheArithmeticSays) {
  const OneStep& one = GetParam();
  Bench bench(one.spec, one.budget, 1, std::max<int>(1, std::ssize(one.attention)));
  bench.step({one.keys}, one.attention);
  EXPECT_THAT(bench.tokens(), testing::ElementsAreArray(one.kept));
  EXPECT_EQ(bench.decision().ties, one.ties);
  for (std::size_t i = 0; i < one.scores.size(); ++i) {
    EXPECT_FLOAT_EQ(bench.decision().scores[i], one.scores[i]) << i;
  }
}

const Matrix kThree = some_keys(3), kFour = some_keys(4), kFive = some_keys(5);
const std::vector<Matrix> kGroup = {matrix({{1, 0, 0, 0}, {.4F, .1F, .3F, .2F}}),
                                    matrix({{0, 1, 0, 0}, {.1F, .5F, .2F, .2F}})};
const std::vector<Matrix> kTwoRows = {matrix({{.6F, 0, 0, .4F}}), matrix({{0, 0, .6F, .4F}})};
const Matrix kEven = matrix({{.25F, .25F, .25F, .25F}}), kRow = matrix({{.1F, .4F, .1F, .1F, .3F}});
const Matrix kSums = matrix({{1, 0, 0}, {.5F, .5F, 0}, {.2F, .2F, .6F}});
const Matrix kKeys = matrix({{4, 0}, {0, 2}, {0, 1}, {0, 1}});
const float kHalf = std::sqrt(.5F), kFifth = std::sqrt(.2F);
const float kCosine = -std::cos(std::acos(-1.0F) / 8);

const OneStep kSteps[] = {
    {"full", 1, kFive, {}, {0, 1, 2, 3, 4}},
    // N = 2 < 4 sinks: the first two, nothing recent.
    {"sink", 2, some_keys(6), {}, {0, 1}},
    // Two query heads share the head. Last rows (.4 .1 .3 .2) and (.1 .5 .2 .2): means .25 .3 .25
    // .2. N = 3: token 3 goes.
    {"tova", 3, kFour, kGroup, {0, 1, 2}, {.25F, .3F, .25F, .2F}, 2},
    // All .25, N = 2: of equal scores the later tokens, 2 and 3; four entries at the threshold.
    {"tova", 2, kFour, {kEven}, {2, 3}, {.25F, .25F, .25F, .25F}, 4},
    // A pure sink stays, of the three zeros the latest.
    {"tova", 2, kFour, {matrix({{1, 0, 0, 0}})}, {0, 3}, {1, 0, 0, 0}, 3},
    // Alone at the threshold is no tie.
    {"tova", 2, kThree, {matrix({{.5F, .2F, .3F}})}, {0, 2}},
    // The last token has the least attention; a budget of 1 leaves room for it alone.
    {"tova(protect_last=1)", 1, kThree, {matrix({{.5F, .4F, .1F}})}, {2}},
    // Every row pays token 0 all it has: sums 3 0 0. N = 2: 0, and of the equal two the later.
    {"h2o", 2, kThree, {matrix({{1, 0, 0}, {1, 0, 0}, {1, 0, 0}})}, {0, 2}, {3, 0, 0}, 2},
    // Sums 1.7 .7 .6 over the 3, 2, 1 queries that could see: .5667 .35 .6: token 1 goes.
    {"h2o(visible)", 2, kThree, {kSums}, {0, 2}, {1.7F / 3, .35F, .6F}},
    // Window 1, kernel 3: row (.1 .4 .1 .1 .3). Maxima of three: .4 .4 .4 .3 .3; among the
    // candidates 0 to 3 alone: .4 .4 .4 .1, and the window's own .3 as it is.
    {"snapkv(1,max,3)", 3, kFive, {kRow}, {1, 2, 4}, {.4F, .4F, .4F, .3F, .3F}, 3},
    {"snapkv(1,max,3,candidates)", 3, kFive, {kRow}, {1, 2, 4}, {.4F, .4F, .4F, .1F, .3F}, 3},
    // Two query heads, rows (.6 0 0 .4) and (0 0 .6 .4). Smoothed after the mean (.3 0 .3 .4):
    // maxima .3 .3 .4 .4. Before: (.6 .6 .4 .4) and (0 .6 .6 .6): means .3 .6 .5 .5.
    {"snapkv(1,max,3)", 2, kFour, kTwoRows, {2, 3}, {.3F, .3F, .4F, .4F}},
    {"snapkv(1,max,3,pool_before_group=1)", 2, kFour, kTwoRows, {1, 3}, {.3F, .6F, .5F, .5F}},
    // Unit mean (2/3, 1/3), length √5/3. Cosines 2/√5, 2/√5, 1/√5. N = 2: token 2, and of the equal
    // two the later.
    {"keydiff",
     2,
     matrix({{2, 0}, {1, 0}, {0, 3}}),
     {},
     {1, 2},
     {-2 * kFifth, -2 * kFifth, -kFifth},
     2},
    // Unit mean (1 + .7071, .7071)/3: both others have cosine .924 with it, the zero key 0.
    {"keydiff", 1, matrix({{1, 0}, {0, 0}, {kHalf, kHalf}}), {}, {1}, {kCosine, 0, kCosine}},
    // Opposite keys: the anchor is zero, every cosine 0: a tie, the later is kept.
    {"keydiff", 1, matrix({{1, 0}, {-1, 0}}), {}, {1}, {0, 0}, 2},
    // rawmean (1,1): inner products 4 2 1 1; distances √10 √2 1 1.
    {"keydiff(rawmean,dot)", 1, kKeys, {}, {3}, {-4, -2, -1, -1}, 2},
    {"keydiff(rawmean,euclidean)", 1, kKeys, {}, {0}, {std::sqrt(10.0F), std::sqrt(2.0F), 1, 1}},
    // Median per coordinate of {4,0,0,0} and {0,2,1,1}: (0, 1): inner products 0 2 1 1.
    {"keydiff(median,dot)", 1, kKeys, {}, {0}, {0, -2, -1, -1}},
    // Unit keys x, y, y, y: −Σ cos = −1 −3 −3 −3.
    {"keydiff(pairwise)", 1, kKeys, {}, {0}, {-1, -3, -3, -3}},
    // Norms 5 0 1 13: N = 2 keeps the zero key and (1,0). Of zero keys the later is kept.
    {"keynorm", 2, matrix({{3, 4}, {0, 0}, {1, 0}, {5, 12}}), {}, {1, 2}, {-5, 0, -1, -13}},
    {"keynorm", 1, matrix({{0, 0}, {0, 0}, {1, 0}}), {}, {1}, {0, 0, -1}, 2},
};
INSTANTIATE_TEST_SUITE_P(, OfOneStep, testing::ValuesIn(kSteps));

TEST(NotScored, WhereNothingIsScoredThereIsNoThreshold) {
  Bench full("full", 1), sink("sink", 2);
  full.step({some_keys(5)});
  EXPECT_TRUE(full.decision().fates.empty());
  sink.step({some_keys(6)});
  EXPECT_TRUE(std::isnan(sink.decision().threshold));
  Bench protecting("tova(protect_last=1)", 1);
  protecting.step({some_keys(3)}, {matrix({{.5F, .4F, .1F}})});
  EXPECT_EQ(protecting.decision().fates[2], Fate::window);
}

TEST(Tova, TheThresholdIsTheLowestScoreKept) {
  for (const auto& [row, threshold] : {std::pair{kEven, .25F}, {matrix({{1, 0, 0, 0}}), 0.0F}}) {
    Bench bench("tova", 2);
    bench.step({some_keys(4)}, {row});
    EXPECT_EQ(bench.decision().threshold, threshold);
  }
}

TEST(Sink, KeepsTheFirstAndTheMostRecent) {
  // N = 5, 2 sinks: tokens 0, 1 and the last 5 − 2 = 3 of 8; then of 9.
  Bench bench("sink(2)", 5);
  bench.step({some_keys(8)});
  EXPECT_THAT(bench.tokens(), ElementsAre(0, 1, 5, 6, 7));
  EXPECT_EQ(bench.decision().fates[0], Fate::sink);
  EXPECT_EQ(bench.decision().fates[7], Fate::by_score);
  EXPECT_EQ(bench.decision().fates[2], Fate::evicted);
  EXPECT_EQ(bench.decision().threshold, 5.0F);  // token 5 is the oldest kept for its recency
  bench.step({some_keys(1)});
  EXPECT_THAT(bench.tokens(), ElementsAre(0, 1, 6, 7, 8));
}

TEST(Tova, ByLayerKeepsOneSet) {
  // Heads see (.6 .3 .1) and (.1 .2 .7); layer means .35 .25 .4. N = 2: token 1 goes in both.
  Bench bench("tova(layer)", 2, 2, 2);
  bench.step({some_keys(3), some_keys(3)}, {matrix({{.6F, .3F, .1F}}), matrix({{.1F, .2F, .7F}})});
  EXPECT_THAT(bench.tokens(0), ElementsAre(0, 2));
  EXPECT_THAT(bench.tokens(1), ElementsAre(0, 2));
  EXPECT_FLOAT_EQ(bench.decision(1).scores[2], .4F);
}

TEST(H2o, AccumulatesAndForgetsTheEvicted) {
  // Step 0, rows (1 0 0) (.5 .5 0) (.2 .2 .6): sums 1.7 .7 .6. N = 2: token 2 goes.
  // Step 1, token 3 over entries 0, 1, 3: (.1 .8 .1): sums 1.8 1.5 .1: token 3 goes.
  // Step 2, token 4 over 0, 1, 4: (0 .1 .9): sums 1.8 1.6 .9: token 4 goes; token 2's .6 is gone.
  Bench bench("h2o", 2);
  bench.step({some_keys(3)}, {matrix({{1, 0, 0}, {.5F, .5F, 0}, {.2F, .2F, .6F}})});
  EXPECT_THAT(bench.tokens(), ElementsAre(0, 1));
  bench.step({some_keys(1)}, {matrix({{.1F, .8F, .1F}})});
  EXPECT_THAT(bench.tokens(), ElementsAre(0, 1));
  EXPECT_FLOAT_EQ(bench.decision().scores[1], 1.5F);
  bench.step({some_keys(1)}, {matrix({{0, .1F, .9F}})});
  EXPECT_THAT(bench.tokens(), ElementsAre(0, 1));
  EXPECT_FLOAT_EQ(bench.decision().scores[2], .9F);
}

TEST(H2o, ASinkAloneStaysWhateverComes) {
  Bench one("h2o", 1);
  one.step({some_keys(2)}, {matrix({{1, 0}, {1, 0}})});
  one.step({some_keys(1)}, {matrix({{.5F, .5F}})});
  EXPECT_THAT(one.tokens(), ElementsAre(0));
}

TEST(SnapKv, MeansOverTheWindowSmoothsAndKeepsTheWindow) {
  // Window 2, kernel 3, n = 6. Rows (.1 .3 .2 .2 .2 0) and (.3 .1 0 .2 .2 .2): means
  // .2 .2 .1 .2 .2 .1. Sums of three: .4 .5 .5 .5 .5 .3, over 3. N = 4: the window's 4, 5, and of
  // .4 .5 .5 .5 (over 3) the best two, later first: 2 and 3. Ties at .5/3 outside the window: 3.
  Bench bench("snapkv(2,kernel=3)", 4);
  bench.step(
      {some_keys(6)},
      {matrix({{1, 0, 0, 0, 0, 0}, {.1F, .3F, .2F, .2F, .2F, 0}, {.3F, .1F, 0, .2F, .2F, .2F}})});
  const auto& scores = bench.decision().scores;
  EXPECT_NEAR(scores[0], .4 / 3, 1e-6);
  EXPECT_NEAR(scores[1], .5 / 3, 1e-6);
  EXPECT_NEAR(scores[5], .3 / 3, 1e-6);
  EXPECT_EQ(bench.decision().fates[4], Fate::window);
  EXPECT_EQ(bench.decision().fates[0], Fate::evicted);
  EXPECT_EQ(bench.tokens().size(), 4U);
}

TEST(SnapKv, WindowLongerThanTheBlockAndTheBudget) {
  // Window 4 over one new token: one row votes. N = 3 < 4: the oldest of the window gives way.
  Bench bench("snapkv(4,kernel=1)", 3);
  bench.step({some_keys(3)}, {matrix({{1, 0, 0}, {.5F, .5F, 0}, {.3F, .3F, .4F}})});
  bench.step({some_keys(1)}, {matrix({{.7F, .1F, .1F, .1F}})});
  EXPECT_THAT(bench.tokens(), ElementsAre(1, 2, 3));
  EXPECT_FLOAT_EQ(bench.decision().scores[0], .7F);
}

TEST(Random, IsAFixedHashThatSurvivalDoesNotAge) {
  Bench bench("random(5)", 4);
  Bench other("random(6)", 4);
  bench.step({some_keys(8)});
  other.step({some_keys(8)});
  EXPECT_NE(bench.decision().scores, other.decision().scores);
  // A kept entry has its score at the next step, too.
  std::map<int, float> scores;
  for (const int token : bench.tokens()) {
    scores[token] = bench.decision().scores[token];
  }
  const auto before = bench.tokens();
  bench.step({some_keys(1)});
  for (std::size_t i = 0; i < before.size(); ++i) {
    EXPECT_EQ(bench.decision().scores[i], scores[before[i]]);
  }
}

TEST(Protection, RecentAndSinksStandInsideTheBudget) {
  // Norms 1 … 8: keynorm alone would keep 0 … 4. With 20 % of 5 recent and one sink: 0, 7 and the
  // best three others.
  Bench bench("keynorm+recent(20%)+sinks(1)", 5);
  Matrix keys = Matrix::Zero(8, 2);
  for (int i = 0; i < 8; ++i) keys(i, 0) = static_cast<float>(i == 0 ? 100 : i);
  bench.step({keys});
  EXPECT_THAT(bench.tokens(), ElementsAre(0, 1, 2, 3, 7));
  EXPECT_EQ(bench.decision().fates[0], Fate::sink);
  EXPECT_EQ(bench.decision().fates[7], Fate::recent);
  EXPECT_EQ(bench.decision().threshold, -3.0F);
}

TEST(Protection, BeyondTheBudgetTheOldestOfTheRecentGiveWay) {
  // 2 sinks and 4 recent for 3 places: tokens 0, 1 and the very last.
  Bench bench("keynorm+recent(4)+sinks(2)", 3);
  bench.step({some_keys(8)});
  EXPECT_THAT(bench.tokens(), ElementsAre(0, 1, 7));
  ModelInfo model;
  model.num_heads = model.num_kv_heads = 1;
  const auto notes = policy_notes(parse_policy("keynorm+recent(4)+sinks(2)"), model, 3);
  ASSERT_EQ(notes.size(), 1U);
  EXPECT_THAT(notes[0], HasSubstr("more than the budget of 3"));
  EXPECT_TRUE(policy_notes(parse_policy("keynorm+recent(4)+sinks(2)"), model, 6).empty());
}

TEST(Protection, InABudgetOfOneTheFirstTokenComesFirst) {
  Bench both("keynorm+recent(2)+sinks(2)", 1);
  both.step({some_keys(4)});
  EXPECT_THAT(both.tokens(), ElementsAre(0));
  Bench recent("keynorm+recent(50%)", 1);  // half of 1 is 0: the equal keys tie, the later stays
  recent.step({some_keys(4)});
  EXPECT_THAT(recent.tokens(), ElementsAre(3));
  EXPECT_EQ(recent.decision().fates[3], Fate::by_score);
}

TEST(Budget, OneTokenAndBudgetOne) {
  for (const char* spec : {"sink", "tova", "h2o", "snapkv", "keydiff", "keynorm", "random"}) {
    Bench bench(spec, 1);
    bench.step({some_keys(1)}, {matrix({{1}})});
    EXPECT_THAT(bench.tokens(), ElementsAre(0)) << spec;
    EXPECT_TRUE(bench.decision().fates.empty()) << spec;
    bench.step({some_keys(1)}, {matrix({{.5F, .5F}})});
    EXPECT_EQ(bench.tokens().size(), 1U) << spec;
  }
}

TEST(Scores, ASumThatOverflowsIsReportedWithLayerHeadAndToken) {
  // Finite keys whose inner product with their mean is beyond float32.
  Bench bench("keydiff(rawmean,dot)", 1);
  EXPECT_THAT(test::error_of<WorkError>([&] {
                bench.step({matrix({{1, 0}, {3e38F, 0}})});
              }),
              HasSubstr("keydiff: the score of layer 0, head 0, token 1"));
}

TEST(States, NotANumberIsReportedWithLayerHeadAndToken) {
  Bench bench("keynorm", 1);
  EXPECT_THAT(test::error_of<WorkError>([&] {
                bench.step({matrix({{1, 0}, {std::numeric_limits<float>::infinity(), 0}})});
              }),
              HasSubstr("keynorm: the key of head 0 of layer 0, token 1 at step 0 has a number"));
}

TEST(States, AttentionThatIsNoNumberIsNeverSortedSilently) {
  const float none = std::numeric_limits<float>::quiet_NaN();
  for (const char* spec : {"tova", "h2o", "snapkv", "snapkv(2,max,3)", "h2o(visible)"}) {
    Bench bench(spec, 1);
    EXPECT_THROW(bench.step({some_keys(2)}, {matrix({{1, 0}, {none, none}})}), WorkError) << spec;
  }
}

TEST(Policies, ABudgetBelowOneIsRefused) { EXPECT_THROW(Bench("keydiff", 0), UsageError); }

}  // namespace
}  // namespace kvloupe
