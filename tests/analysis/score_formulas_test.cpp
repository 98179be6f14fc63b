// Scores on a few entries, with the arithmetic in a comment: those of other papers and libraries
// than the first four. One step brings all entries; attention, where it is read, is given.

#include "analysis/policy/kit/score_values.h"
#include "tests/support/given_attention.h"
#include "tests/support/test.h"

namespace kvloupe {
namespace {

using test::matrix;

/// One head of two coordinates that RoPE does not rotate, scale 1.
struct Entries {
  Matrix keys, values;
  std::vector<Matrix> queries;         // [Hq]
  std::vector<Matrix> attention = {};  // [Hq]
};

LayerContext context_for(const Entries& entries) {
  LayerContext context;
  context.model.num_layers = 1;
  context.model.num_heads = static_cast<int>(entries.queries.size());
  context.model.num_kv_heads = 1;
  context.model.head_dim = static_cast<int>(entries.keys.cols());
  context.model.rope_scaling = kNoRotation;
  context.attention = 1.0;
  context.budget = 1;
  return context;
}

HeadDecision decision_of(const std::string& spec, const Entries& entries,
                         const LayerContext& context) {
  const auto policy = make_layer_policy(parse_policy(spec), context, {.always_score = true});
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(entries.keys.rows()));
  for (std::size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<std::int32_t>(i);
  StepView view;
  view.block = {0, static_cast<int>(tokens.size())};
  view.caches.push_back({tokens, kvloupe::view(entries.keys), kvloupe::view(entries.values), {}});
  for (const Matrix& queries : entries.queries) view.queries.push_back(kvloupe::view(queries));
  test::GivenAttention attention;
  attention.rows = entries.attention;
  view.attention = &attention;
  return policy->step(view).front();
}

HeadDecision decision_of(const std::string& spec, const Entries& entries) {
  return decision_of(spec, entries, context_for(entries));
}

std::vector<float> scores_of(const std::string& spec, const Entries& entries) {
  return decision_of(spec, entries).scores;
}

testing::Matcher<float> near(double x) { return FloatNear(static_cast<float>(x), 2e-5F); }

const Matrix kOnes2 = matrix({{1, 0}, {1, 0}});
const Matrix kOnes3 = matrix({{1, 0}, {1, 0}, {1, 0}});
const Matrix kNothing3 = matrix({{0, 0}, {0, 0}, {0, 0}});

TEST(ScoreFormulas, AreThoseOfTheArithmetic) {
  const auto gives = [](const std::string& says, const std::string& spec, const Entries& entries,
                        const std::vector<double>& scores) {
    EXPECT_THAT(scores_of(spec, entries), testing::Pointwise(FloatNear(2e-5F), scores))
        << spec << ": " << says;
  };
  const float log3 = std::log(3.0F);
  const double root3 = std::sqrt(3.0), deviation = std::sqrt(266.0 / 3);
  const Matrix ones4 = matrix({{1, 0}, {1, 0}, {1, 0}, {1, 0}}), ones9 = Matrix::Ones(9, 2);
  const Matrix axes = matrix({{-1, 0}, {1, 0}, {0, 0}}), some = matrix({{1, 0}, {0, 2}, {3, 4}});
  // μ = (1, 0), Σ = 0: logits 0 and ln 3, attention 1/4 and 3/4; values of length 2 and 1.
  const Entries softmax{matrix({{0, 0}, {log3, 0}}), matrix({{0, 2}, {1, 0}}), {kOnes2}};
  // Queries ±(1, 0): μ = 0, Σ = diag(1, 0), logit k²/2: 0 and ln 3.
  const Entries spread{
      matrix({{0, 0}, {std::sqrt(2.0F * log3), 0}}), kOnes2, {matrix({{1, 0}, {-1, 0}})}};
  // The next partition spans 0 to 1 in both coordinates: places (0, 0) and (1, 3), deviations 0 and
  // √2, softmax 0.19557 and 0.80443; values alike: 1/2 each.
  const Entries lag{
      matrix({{0, 0}, {1, 3}, {0, 0}, {1, 1}}), matrix({{1, 1}, {1, 1}, {1, 1}, {1, 1}}), {ones4}};
  // Queries of zeros: every chunk pays evenly, 1 to each. Lengths 3, 6, 9, mean of three places.
  const Entries even{kOnes3, matrix({{3, 0}, {0, 6}, {9, 0}}), {kNothing3}};
  // Lengths 1, 1 + ln 2: p = 2/3, 1/3.
  const Entries two{matrix({{1, 0}, {0, 1 + std::log(2.0F)}}), kOnes2, {kOnes2}};
  const std::string temperature = std::to_string(std::log(2.0) / std::log(3.0));
  // With two entries as the window; means 0.4, 0.35, 0.25, variances 0.08, 0.005, 0.125.
  const Entries window{matrix({{1, 0}, {0, 1}, {1, 1}}),
                       matrix({{3, 0}, {1, 0}, {2, 0}}),
                       {kOnes3},
                       {matrix({{0.6F, 0.4F, 0.0F}, {0.2F, 0.3F, 0.5F}})}};
  const float whole = 4194304.0F;
  gives("the softmax at the mean query times the value's length", "expected(sinks=0)", softmax,
        {0.5, 0.75});
  // (1/4 + 1)·2 and (3/4 + 1)·1.
  gives("with an epsilon", "expected(sinks=0,epsilon=1)", softmax, {2.5, 1.75});
  gives("a spread of queries counts with its covariance", "expected(sinks=0)", spread,
        {0.25, 0.75});
  gives("and without it not", "expected(sinks=0,covariance=0)", spread, {0.5, 0.5});
  gives("the product with the queries' direction", "qfilter",
        {matrix({{1, 5}, {-2, 7}}), kOnes2, {matrix({{2, 0}, {1, 0}})}}, {1, -2});
  gives("on the side of their mean", "qfilter",
        {matrix({{1, 5}, {-2, 7}}), kOnes2, {matrix({{-2, 0}, {1, 0}})}}, {-1, 2});
  gives("a partition beside the next", "lagkv(0,lag=2,cross=1)", lag, {0.347785, 0.652215, 1, 1});
  gives("within the partition", "lagkv(0,lag=2)", lag, {0, 0.5, 1, 1});
  gives("fewer than two partitions: the later, the better; the first has the largest of these",
        "lagkv(1,lag=2)", lag, {0.5, 0, 0.25, 0.5});
  gives("what a chunk pays, smoothed", "noncausal(2)", even, {3, 6, 5});
  // The last chunk of one is filled up with an entry, which takes half of the query's
  // attention, and with a query, which gives half of its own: 1 again.
  gives("a chunk that is filled up", "noncausal(2,padded=1)", even, {3, 6, 5});
  // With a logit of ln 3: 3/4 + 1/2, of a length of 9.
  gives("a chunk that is filled up, with logits", "noncausal(2,padded=1)",
        {kOnes3, even.values, {matrix({{0, 0}, {0, 0}, {log3, 0}})}},
        {3, (9 + 11.25) / 3, (6 + 11.25) / 3});
  // XᵀX + I = diag(3, 1).
  gives("the diagonal of the projection", "leverage(0,ridge=1)", {axes, kOnes3, {kOnes3}},
        {1.0 / 3, 1.0 / 3, 0});
  // Leverage 1/3, 1/3, 0: standard scores 1/√3, 1/√3, −2/√3. Attention 1 each, smoothed 2/3, 1,
  // 2/3: −1/√3, 2/√3, −1/√3.
  gives("standard scores are added", "compactor(1,first=0,last=0,sketch=0,ridge=1,chunk=4)",
        {axes, kOnes3, {kNothing3}}, {0, root3, -root3});
  // 1 − N/n = 2/3 of the leverage.
  gives("blending=ratio", "compactor(first=0,last=0,sketch=0,ridge=1,chunk=4)",
        {axes, kOnes3, {kNothing3}},
        {-1.0 / 3 / root3, (2.0 / 3 + 2) / root3, (-4.0 / 3 - 1) / root3});
  // Keys 1, 3 | 4: shares 1/4, 3/4, 1. Values 1, 1 | 9: 1/2, 1/2, 1. Products over their sum
  // 3/2.
  gives(
      "squares are compared within a window", "cur(0,window=2)",
      {matrix({{1, 0}, {0, std::sqrt(3.0F)}, {2, 0}}), matrix({{1, 0}, {0, 1}, {3, 0}}), {kOnes3}},
      {1.0 / 12, 1.0 / 4, 2.0 / 3});
  // Cosines 1 and −1, tau ln 2 / 2: weights 1 and 1/2. I + Σ w vᵀv = diag(5/2, 1).
  gives("weighs by direction and asks what the others have", "capkv(0.34657359,sinks=0,epsilon=0)",
        {matrix({{1, 0}, {-1, 0}}), kOnes2, {kOnes2}}, {0.4, 0.2});
  // o = (1/2, 0): (1/2 / 1/2)² · 1/4 and (1/4 / 3/4)² · 1/4.
  gives("the squared change of the output", "dropkv(1,kernel=1)",
        {kOnes3, matrix({{1, 0}, {0, 0}, {0, 0}}), {kOnes3}, {matrix({{0.5F, 0.25F, 0.25F}})}},
        {0.25, 1.0 / 36, 1.0 / 36});
  // o = (2a + b + c)/4 = 2²² + 1.25 lies between two float32. Distances 0.25, 1.25, 0.75.
  gives("values near the output are told apart", "dropkv(1,kernel=1)",
        {kOnes3,
         matrix({{whole + 1.5F, 0}, {whole, 0}, {whole + 2.0F, 0}}),
         {kOnes3},
         {matrix({{0.5F, 0.25F, 0.25F}})}},
        {0.0625, 1.5625 / 9, 0.5625 / 9});
  // Attention of the last query 3/4 and 1/4; keys have nothing in common: 1/3 each.
  gives("attention is added, repetition taken away", "rkv(1,kernel=1,lambda=0.5)",
        {matrix({{log3, 0}, {0, 0}, {0, 1}}), kOnes3, {kOnes3}},
        {0.375 - 1.0 / 6, 0.125 - 1.0 / 6, 0.375 - 1.0 / 6});
  // Three equal keys. In each row the latest other one does not count, so columns have the
  // means 2/3, 1/3 and 0: softmax 0.44844, 0.32132, 0.23024.
  gives("equal keys", "rkv(1,kernel=1,lambda=0.5)", {kOnes3, kOnes3, {kOnes3}},
        {0.25 - 0.22422, 0.25 - 0.16066, 0.25 - 0.16066});
  gives("the largest coordinate less the smallest", "valuerange(0)",
        {kNothing3, matrix({{1, -2}, {0, 0.5F}, {3, 3}}), {kNothing3}}, {3, 0.5, 0});
  // Means over two query heads 0.3, 0.525, 0.175; ‖v‖₁ 3, 1, 6.
  gives("the last query's attention times the value's length", "longflow",
        {kNothing3,
         matrix({{1, -2}, {0, 1}, {3, 3}}),
         {kNothing3, kNothing3},
         {matrix({{1, 0, 0}, {0.5F, 0.25F, 0.25F}}), matrix({{1, 0, 0}, {0.1F, 0.8F, 0.1F}})}},
        {0.9, 0.525, 1.05});
  // p = 1/3. A = ((1, 1, 0), (1, 1, 0), (0, 0, 1)): A p = (2, 2, 1)/3, as shares 0.4, 0.4, 0.2.
  gives("importance goes to similar keys", "centrality(0.5,steps=1,base=uniform,sinks=0,recent=0)",
        {matrix({{1, 0}, {2, 0}, {-1, 0}}), kOnes3, {kOnes3}},
        {0.2 + 1.0 / 6, 0.2 + 1.0 / 6, 0.1 + 1.0 / 6});
  gives("without damping", "centrality(0,sinks=0,recent=0)", two, {2.0 / 3, 1.0 / 3});
  gives("with a temperature of ln 2 / ln 3", "centrality(0,temperature=" + temperature + ")", two,
        {0.75, 0.25});
  // Largest 0.6 and 0.5, not below their mean 0.55; nor is that of the window itself, 0.4.
  gives("the largest of the group and the window", "defensive(1,kernel=1,outputs=0)",
        {kOnes3,
         kOnes3,
         {kOnes3, kOnes3},
         {matrix({{0.6F, 0.2F, 0.2F}}), matrix({{0.1F, 0.5F, 0.4F}})}},
        {0.6, 0.55, 0.55});
  // Protected entries have the score of the formula or the largest of the others.
  gives("protected", "cakescore(2,gamma=1,kernel=1)", window, {0.48, 0.355, 0.375});
  gives("protected: times the longest value before the window, 3", "lavascore(2,kernel=1)", window,
        {1.2, 1.05, 0.75});
  gives("protected: the largest of both rows; entry 0 alone makes the mean",
        "defensive(2,kernel=1,outputs=0)", window, {0.6, 0.6, 0.6});
  gives("protected: squares 1·9, 1·1, 2·4 over the sums 4 and 14", "cur(2)", window,
        {9.0 / 18, 1.0 / 18, 8.0 / 18});
  gives("too few for a partition: 0 of 3 for the one that is scored, no formula for the first two",
        "lagkv(1)", window, {1.0 / 3, 0, 1.0 / 3});
  // Received 1.5 and 0.5, lengths 3 and 1.
  gives("accumulated attention times the value's length", "vatp(0)",
        {kOnes2, matrix({{1, -2}, {0, 1}}), {kOnes2}, {matrix({{1, 0}, {0.5F, 0.5F}})}},
        {4.5, 0.5});
  // Without rotation and with equal queries: the product with (3, 4).
  gives("the mean query's product", "triattention(standard=0)",
        {some, kOnes3, {matrix({{3, 4}, {3, 4}, {3, 4}})}}, {3, 8, 25});
  // Queries that cancel: the mean is 0, their mean length 2/3 · 1; the keys' lengths 1, 2, 5.
  gives("the spread's length", "triattention(standard=0)",
        {some, kOnes3, {matrix({{1, 0}, {-1, 0}, {0, 0}})}}, {2.0 / 3, 4.0 / 3, 10.0 / 3});
  // 3, 8, 25: mean 12, variance (81 + 16 + 169)/3.
  gives("standard scores divide by the number of entries", "triattention",
        {some, kOnes3, {matrix({{3, 4}, {3, 4}, {3, 4}})}},
        {-9 / deviation, -4 / deviation, 13 / deviation});
  // Shares of the third chunk 5/9, 1/6, 5/18: entropy 0.89 of the largest. The other two have
  // equal scores, 1 without an epsilon; with 1e-8 beside their sums 3e-9 and 6e-9 they have
  // shares of 0.08 and 0.125 and entropies of 0.54 and 0.71. So the third is not below the
  // median, and whole.
  gives("scores near the epsilon of the entropy lose evenness", "h2o+chunks(3,few=1)",
        {ones9,
         ones9,
         {ones9},
         {matrix({{1e-9F, 1e-9F, 1e-9F, 2e-9F, 2e-9F, 2e-9F, 1.0F, 0.3F, 0.5F}})}},
        {1, 2, 3, 4, 5, 6, 9, 7, 8});
  // Received 1, 1/2 | 1/4.
  gives("every token has the mean of its chunk", "h2o+chunks(2)",
        {kOnes3, kOnes3, {kOnes3}, {matrix({{1, 0.5F, 0.25F}})}}, {0.75, 0.75, 0.25});
}

TEST(Expected, ScoresTooSmallForFloat32KeepTheirOrder) {
  // Logits 0, −500, −300, −400 and values of length 1, 1, 1 and e²: by logarithms.
  const Entries entries{matrix({{0, 0}, {-500, 0}, {-300, 0}, {-400, 0}}),
                        matrix({{1, 0}, {0, 1}, {-1, 0}, {0, std::exp(2.0F)}}),
                        {matrix({{1, 0}, {1, 0}, {1, 0}, {1, 0}})},
                        {}};
  const std::vector<float> scores = scores_of("expected(sinks=0)", entries);
  EXPECT_NEAR(scores[0], 1.0, 1e-6);
  EXPECT_NEAR(logarithm_of_score(scores[1]), -500.0, 1e-3);
  EXPECT_NEAR(logarithm_of_score(scores[2]), -300.0, 1e-3);
  EXPECT_NEAR(logarithm_of_score(scores[3]), -398.0, 1e-3);
  for (const float score : scores) EXPECT_LT(score, 1.1F);
  // Two places: entry 2 and not the last one. So with caote, whose factors are of the size 1, and
  // for chunks of one token.
  LayerContext context = context_for(entries);
  context.budget = 2;
  for (const char* rest : {"", "+adakv(0)", "+caote", "+chunks(1)"}) {
    EXPECT_THAT(decision_of(std::string("expected(sinks=0)") + rest, entries, context).kept,
                ElementsAre(0, 2))
        << rest;
  }
}

TEST(SmallScores, StandForTheirLogarithm) {
  float before = 2.0F;
  for (double logarithm = 0.0; logarithm > -1240.0; logarithm -= 0.7) {
    const float score = score_of_logarithm(logarithm);
    EXPECT_LT(score, before) << logarithm;
    EXPECT_NEAR(logarithm_of_score(score), logarithm, 2e-5);
    if (logarithm > std::log(1e-30)) {
      EXPECT_NEAR(score, std::exp(logarithm), 1e-6 * std::exp(logarithm));
    } else {
      EXPECT_LT(score, 1.001e-30F);
    }
    before = score;
  }
  EXPECT_THAT(with_small_scores({0.25, 0.0, 1e-94}),
              ElementsAre(0.25F, 0.0F, FloatNear(1e-31F, 1e-36F)));
  EXPECT_EQ(score_of_logarithm(-std::numeric_limits<double>::infinity()), 0.0F);
  EXPECT_TRUE(std::isnan(score_of_logarithm(std::nan(""))));
  EXPECT_TRUE(std::isnan(with_small_scores({std::nan("")})[0]));
}

TEST(Expected, TakesItsStatisticsFromAnotherTrace) {
  const test::TemporaryFolder folder;
  test::SyntheticTraceOptions options{.generated = 0};
  const std::string file = (folder / "t.h5").string();
  test::write_synthetic_trace(file, options);
  const Trace trace(file);
  const auto kept = [&](const std::string& spec) {
    ReplayRequest request{.policy = parse_policy(spec), .budget = 20, .block = kWholePrompt};
    const Replay made = replay(trace, request, test::unwatched);
    std::vector<std::int32_t> all;
    for (const HeadReplay& head : made.heads) {
      const auto own = made.retained_at(head, 0);
      all.insert(all.end(), own.begin(), own.end());
    }
    return all;
  };
  // With the whole prompt as one block, the trace's own mean is that of the queries so far; a trace
  // with other queries has another mean.
  const auto own = kept("expected(covariance=0)");
  EXPECT_EQ(kept("expected(covariance=0,statistics=\"" + file + "\")"), own);
  options.seed += 1;
  const std::string other = (folder / "other.h5").string();
  test::write_synthetic_trace(other, options);
  EXPECT_NE(kept("expected(covariance=0,statistics=\"" + other + "\")"), own);
  // A model with other heads: refused when the file is first read.
  EXPECT_THAT(test::error_of<FileError>([&] {
                scores_of("expected(statistics=\"" + file + "\")", {kOnes2, kOnes2, {kOnes2}, {}});
              }),
              HasSubstr("other heads or layers"));
}

TEST(Expected, CappedLogitsAreRefused) {
  LayerContext context = context_for({kOnes2, kOnes2, {kOnes2}, {}});
  context.attention.softcap = 30.0;
  EXPECT_THROW(make_layer_policy(parse_policy("expected"), context), UsageError);
}

TEST(DropKv, SquaresTooSmallForFloat32KeepTheirOrder) {
  const Entries entries{
      kOnes3, matrix({{1, 0}, {2, 0}, {0, 0}}), {kOnes3}, {matrix({{1e-25F, 2e-25F, 1.0F}})}};
  const std::vector<float> scores = scores_of("dropkv(1,kernel=1)", entries);
  EXPECT_NEAR(logarithm_of_score(scores[0]), std::log(1e-50), 1e-3);
  EXPECT_NEAR(logarithm_of_score(scores[1]), std::log(16e-50), 1e-3);
}

TEST(Rkv, TakesTheLastQueriesOfWhateverSteps) {
  // Keys are orthogonal, so that r is 1/n. The query of the first step, token 1, looks at entry 0,
  // that of the second at entry 1, that of the third at neither.
  const Matrix keys = matrix({{1, 0, 0, 0}, {0, 1, 0, 0}, {0, 0, 1, 0}, {0, 0, 0, 1}});
  const float high = std::log(3.0F);
  const std::vector<Matrix> queries = {matrix({{0, 0, 0, 0}, {high, 0, 0, 0}}),
                                       matrix({{0, high, 0, 0}}), matrix({{0, 0, 0, 0}})};
  LayerContext context = context_for({keys, keys, queries, {}});
  context.model.num_heads = 1;
  context.budget = 9;
  const auto scores = [&](const std::string& spec) {
    const auto policy = make_layer_policy(parse_policy(spec), context, {.always_score = true});
    const std::vector<std::int32_t> tokens = {0, 1, 2, 3};
    std::vector<float> last;
    int end = 0;
    for (const Matrix& asked : queries) {
      StepView view;
      view.block = {end, end + static_cast<int>(asked.rows())};
      end = view.block.end;
      view.caches.push_back({std::span(tokens).first(static_cast<std::size_t>(end)),
                             rows(kvloupe::view(keys), 0, end),
                             rows(kvloupe::view(keys), 0, end),
                             {}});
      view.queries.push_back(kvloupe::view(asked));
      last = policy->step(view).front().scores;
    }
    return last;
  };
  // window 1: the last query alone sees entries 0, 1, 2 alike.
  EXPECT_THAT(scores("rkv(1,kernel=1,lambda=0.5)"),
              ElementsAre(near(1.0 / 6 - 0.125), near(1.0 / 6 - 0.125), near(1.0 / 6 - 0.125),
                          near(1.0 / 6 - 0.125)));
  // window 2: of entries 0 and 1 the second query gives 1/4 and 3/4, the last 1/2 each.
  EXPECT_THAT(scores("rkv(2,kernel=1,lambda=0.5)"),
              ElementsAre(near(0.1875 - 0.125), near(0.3125 - 0.125), near(0.3125 - 0.125),
                          near(0.3125 - 0.125)));
}

TEST(Rkv, SinkLogitsAreRefused) {
  LayerContext context = context_for({kOnes2, kOnes2, {kOnes2}, {}});
  context.attention.sink_logits = {0.5F};
  EXPECT_THROW(make_layer_policy(parse_policy("rkv"), context), UsageError);
}

/// The scores of each step of a policy that keeps all; the steps bring these numbers of tokens and
/// their last query pays this attention.
std::vector<std::vector<float>> scores_by_step(const std::string& spec,
                                               const std::vector<Matrix>& attention) {
  const Matrix none = Matrix::Zero(attention.back().cols(), 2);
  LayerContext context = context_for({none, none, {none}, {}});
  context.budget = 99;
  const auto policy = make_layer_policy(parse_policy(spec), context, {.always_score = true});
  std::vector<std::int32_t> tokens;
  std::vector<std::vector<float>> scores;
  for (const Matrix& row : attention) {
    StepView view;
    view.block = {static_cast<int>(tokens.size()), static_cast<int>(row.cols())};
    while (std::ssize(tokens) < row.cols()) tokens.push_back(static_cast<int>(tokens.size()));
    const MatrixView states = rows(kvloupe::view(none), 0, row.cols());
    view.caches.push_back({tokens, states, states, {}});
    view.queries.push_back(rows(kvloupe::view(none), 0, view.block.size()));
    test::GivenAttention given;
    given.rows = {row};
    view.attention = &given;
    scores.push_back(policy->step(view).front().scores);
  }
  return scores;
}

TEST(Raas, StampsTheUpperHalfWithTheQuerysToken) {
  // Of two entries one is stamped, of three one, of four two. A new entry begins with its token.
  const std::vector<Matrix> attention = {matrix({{0.9F, 0.1F}}), matrix({{0.1F, 0.6F, 0.3F}}),
                                         matrix({{0.1F, 0.2F, 0.3F, 0.4F}})};
  const auto scores = scores_by_step("raas", attention);
  EXPECT_THAT(scores[0], ElementsAre(1, 1));
  EXPECT_THAT(scores[1], ElementsAre(1, 2, 2));
  EXPECT_THAT(scores[2], ElementsAre(1, 2, 3, 3));
  // A quarter, and one at least: entry 0 at token 1, entry 1 at token 2, entry 3 at token 3.
  EXPECT_THAT(scores_by_step("raas(25)", attention)[2], ElementsAre(1, 2, 2, 3));
  EXPECT_THAT(scores_by_step("raas(100)", attention)[2], ElementsAre(3, 3, 3, 3));
}

/// Three entries before a window of one, of which the last query gives 3/5, 1/5 and 1/5. The second
/// one's value has the largest range.
Entries vase_entries() {
  return {matrix({{std::log(3.0F), 0}, {0, 0}, {0, 1}, {0, 0}}),
          matrix({{0, 1}, {-2, 3}, {1, 2}, {9, -9}}),
          {matrix({{0, 0}, {0, 0}, {0, 0}, {1, 0}})},
          {}};
}

TEST(Vase, ExpectedShowsInclusionProbabilities) {
  LayerContext context = context_for(vase_entries());
  context.budget = 3;  // the window, one pinned entry, one that is drawn
  // With x = exp(-λ/5): (1 - x³) + (1 - x) = 1, so x = 0.682328 = the share of entry 0.
  EXPECT_THAT(decision_of("vase(1,1,kernel=1,sinks=0,expected=1)", vase_entries(), context).scores,
              ElementsAre(near(0.682328), near(1), near(0.317672), near(1)));
  // The first token is pinned instead; entries 1 and 2 are alike.
  EXPECT_THAT(decision_of("vase(1,1,kernel=1,sinks=1,expected=1)", vase_entries(), context).scores,
              ElementsAre(near(1), near(0.5), near(0.5), near(1)));
}

TEST(Vase, OnePlaceIsDrawnInProportionToTheWeights) {
  LayerContext context = context_for(vase_entries());
  context.budget = 3;
  int drawn = 0;
  constexpr int kSeeds = 4000;
  for (int seed = 0; seed < kSeeds; ++seed) {
    const HeadDecision decision = decision_of(
        "vase(1,1,kernel=1,sinks=0,seed=" + std::to_string(seed) + ")", vase_entries(), context);
    ASSERT_EQ(decision.kept.size(), 3U);
    EXPECT_EQ(decision.kept[1], decision.kept[0] == 0 ? 1 : 2);
    EXPECT_EQ(decision.kept[2], 3) << "the window";
    drawn += decision.kept[0] == 0 ? 1 : 0;
  }
  // 0.6 against 0.2; a binomial share of 4000 has a standard deviation of 0.007.
  EXPECT_NEAR(drawn / double{kSeeds}, 0.75, 0.03);
}

TEST(Vase, ManyDrawsAgreeWithTheInclusionProbabilities) {
  constexpr int kEntries = 120;
  Entries entries{Matrix(kEntries, 2), Matrix(kEntries, 2), {Matrix::Zero(kEntries, 2)}, {}};
  for (int i = 0; i < kEntries; ++i) {
    entries.keys.row(i) << 3.0F * std::sin(static_cast<float>(i)), 1.0F;
    entries.values.row(i) << 0.0F, static_cast<float>((7 * i) % kEntries);
  }
  entries.queries[0](kEntries - 1, 0) = 1.0F;
  LayerContext context = context_for(entries);
  context.budget = 41;  // the window, 10 pinned, 30 drawn of 109
  const std::vector<float> expected =
      decision_of("vase(10,1,kernel=1,sinks=0,expected=1)", entries, context).scores;
  std::vector<double> kept(kEntries, 0.0);
  constexpr int kSeeds = 3000;
  for (int seed = 0; seed < kSeeds; ++seed) {
    const std::string spec = "vase(10,1,kernel=1,sinks=0,seed=" + std::to_string(seed) + ")";
    for (const std::int32_t row : decision_of(spec, entries, context).kept) {
      kept[row] += 1.0 / kSeeds;
    }
  }
  double places = 0.0;
  for (std::size_t i = 0; i < kEntries - 1; ++i) {
    places += static_cast<double>(expected[i]);
    EXPECT_NEAR(kept[i], static_cast<double>(expected[i]), 0.04) << i;
  }
  EXPECT_NEAR(places, 40.0, 1e-3);
}

TEST(LagKv, SaysWhereItKeepsWhatSinkKeeps) {
  const PolicySpec lag = parse_policy("lagkv");
  ModelInfo model;
  model.num_heads = model.num_kv_heads = 1;
  const auto notes = policy_notes(lag, model, 200);
  ASSERT_EQ(notes.size(), 1U);
  EXPECT_THAT(notes[0], HasSubstr("from 260 entries on"));
  EXPECT_THAT(notes[0], HasSubstr("fewer than 60 tokens it keeps what sink(4) keeps"));
  EXPECT_TRUE(policy_notes(lag, model, 259).empty()) << "a step of one token makes 260";
  EXPECT_EQ(policy_notes(lag, model, 258).size(), 1U);
  EXPECT_TRUE(policy_notes(parse_policy("lagkv(lag=32)"), model, 200).empty());
}

TEST(TriAttention, CountsFromTheNextToken) {
  // One pair of frequency 1, one token: key and query at position 0. The next token is 1 away, and
  // further distances are 1, 2, 4 … 65536.
  Entries entries{matrix({{1, 0}}), matrix({{1, 0}}), {matrix({{2, 0}})}, {}};
  LayerContext context = context_for(entries);
  context.model.rope_scaling.clear();
  double mean = 0.0;
  for (double delta = 1.0; delta <= 65536.0; delta *= 2.0) mean += 2.0 * std::cos(1.0 + delta) / 17;
  EXPECT_THAT(decision_of("triattention(standard=0)", entries, context).scores,
              ElementsAre(near(mean)));
}

TEST(ToMe, GivesAValueToTheNearestKeyByItsLength) {
  // Token 0 stays. Token 1 has its key and three times its length: w = 3/4, (v₀ + 3/4 v₁)/(7/4).
  // The key of token 2 is at a right angle: it leaves nothing.
  const Entries entries{
      matrix({{1, 0}, {2, 0}, {0, 1}}), matrix({{1, 0}, {0, 3}, {5, 5}}), {kOnes3}, {}};
  const HeadDecision decision = decision_of("sink(1)+tome", entries);
  ASSERT_EQ(decision.merges.size(), 1U);
  const Merge& merge = decision.merges.front();
  EXPECT_EQ(merge.into, 0);
  EXPECT_THAT(merge.from, ElementsAre(0, 1));
  EXPECT_THAT(merge.weights, ElementsAre(near(4.0 / 7), near(3.0 / 7)));
  EXPECT_TRUE(merge.key.empty());
}

}  // namespace
}  // namespace kvloupe
