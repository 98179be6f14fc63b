// A layer that goes on from an earlier state decides as one that starts anew, bit by bit: every
// score of the catalogue, plain and with each modifier.

#include "analysis/replay/cache/evicting_layer.h"
#include "tests/support/catalogue_parts.h"
#include "tests/support/made_replays.h"
#include "tests/support/test.h"

namespace kvloupe {
namespace {

constexpr int kCommon = 16, kEnd = 26, kBudget = 7;

test::SyntheticTraceOptions shape(unsigned seed) {
  return {.layers = 1,
          .head_dim = 4,
          .hidden_size = 6,
          .prompt_length = 24,
          .generated = 2,
          .seed = seed,
          .clusters = 3};
}

struct Branches : test::MadeLayerReplays {
  Branches() : MadeLayerReplays(shape(21)), other_(shape(22)) {
    for (int token = 0; token < kEnd; ++token) structural_.push_back(token % 5 == 0);
    context_.structural = &structural_;
    context_.prompt_length = kCommon;
  }

  EvictingLayer layer(const std::string& spec) {
    LayerContext context = context_;
    context.budget = kBudget;
    context.output_weights = states_.output_weights;
    return {parse_policy(spec), context, {.always_score = true}};
  }

  /// Runs tokens of made-up states; says all that was decided and is held, to the last bit.
  std::string run(EvictingLayer& layer, const LayerStates& states, int first, int end, int block) {
    std::ostringstream said;
    said << std::hexfloat;
    int step = first;  // no two are alike
    for (int at = first; at < end; at += block, ++step) {
      const Block tokens{at, std::min(at + block, end)};
      BlockStates one;
      one.step = step;
      one.block = tokens;
      for (const auto& [from, to] : {std::pair{&states.queries, &one.queries},
                                     {&states.keys, &one.keys},
                                     {&states.values, &one.values}}) {
        for (const Matrix& rows : *from)
          to->emplace_back(rows.data() + tokens.first * rows.outerStride(), tokens.size(),
                           rows.cols(), Eigen::OuterStride<>(rows.outerStride()));
      }
      const std::vector<HeadDecision> decisions = layer.step(one);
      for (std::size_t head = 0; head < decisions.size(); ++head) {
        const HeadDecision& of = decisions[head];
        said << "\n" << step << "." << head << " kept";
        for (const int row : of.kept) said << " " << row;
        for (const float score : of.scores) said << " " << score;
        for (const float score : of.second_scores) said << " " << score;
        for (const Fate fate : of.fates) said << " " << static_cast<int>(fate);
        for (const Merge& merge : of.merges) {
          said << " into " << merge.into << " log " << merge.log_size.value_or(-1.0F);
          for (const float number : merge.weights) said << " " << number;
          for (const float number : merge.key) said << " " << number;
          for (const float number : merge.value) said << " " << number;
        }
        layer.carry_out(static_cast<int>(head), of);
        const CacheView held = layer.head(static_cast<int>(head)).view();
        said << " held";
        for (const int token : held.tokens) said << " " << token;
        for (const MatrixView& rows : {held.keys, held.values}) said << " " << rows.sum();
      }
    }
    return said.str();
  }

  test::MadeLayerReplays other_;
  std::vector<char> structural_;
};

/// What no list of the catalogue has: schedules, fewer bits, tokens that a person names.
const char* const kMore[] = {"h2o+every(2)",
                             "tova+slack(2)",
                             "snapkv(3)+protect_prompt(1)",
                             "keydiff+only(prompt)",
                             "h2o+boundaries",
                             "h2o+quant(2,group=8,residual=2)",
                             "full+quant(4,group=8,residual=2)",
                             "tova+keep(\"3-5\")",
                             "full+drop(\"3;4\")",
                             "attentionmatching+pages(3)",
                             "vase(2,3,kernel=3,sinks=1)+adakv(0.6)"};

TEST(Branch, EveryPolicyOfTheCatalogueGoesOnFromAStateAsIfItHadStartedAnew) {
  Branches made;
  std::vector<std::string> specs = test::catalogue_specs();
  specs.insert(specs.end(), std::begin(kMore), std::end(kMore));
  int tried = 0, differ = 0;
  for (const std::string& spec : specs) {
    const PolicySpec policy = parse_policy(spec);
    if (has_trait(policy, &PolicyTraits::needs_future)) continue;
    SCOPED_TRACE(spec);
    ++tried;
    EvictingLayer branched = made.layer(spec);
    const std::string common = made.run(branched, made.states_, 0, kCommon, 8);
    const EvictingLayer::State state = branched.state(/*acts=*/true);
    EXPECT_EQ(branched.state(/*acts=*/false).policy, nullptr);
    // Another continuation, one token at a time, must leave nothing behind.
    const std::string aside = made.run(branched, made.other_.states_, kCommon, kEnd, 1);
    branched.go_on_from(state);
    const std::string first = made.run(branched, made.states_, kCommon, kEnd, 3);
    branched.go_on_from(state);
    const std::string again = made.run(branched, made.states_, kCommon, kEnd, 3);
    EvictingLayer anew = made.layer(spec);
    EXPECT_EQ(made.run(anew, made.states_, 0, kCommon, 8), common);
    const std::string expected = made.run(anew, made.states_, kCommon, kEnd, 3);
    EXPECT_EQ(first, expected);
    EXPECT_EQ(again, expected);
    differ += aside != expected;
    if (testing::Test::HasFailure()) break;
  }
  EXPECT_GT(tried, 300);
  EXPECT_EQ(differ, tried);
}

}  // namespace
}  // namespace kvloupe
