// Policies that decide once all layers have read a block: thinkv, epikv. Their twins are plain
// loops in double.

#include "analysis/policy/kit/whole_pass.h"
#include "tests/support/test.h"

namespace kvloupe {
namespace {

/// What layers say, written down by the test: one query head, d = 1.
class GivenPass : public WholePass {
 public:
  std::vector<std::vector<float>> changes;  // [L] of [T]
  /// The layers' attention follows from these: the logits of every query, [L] of [T].
  void attend(std::vector<std::vector<float>> logits) {
    for (std::size_t layer = 0; layer < logits.size(); ++layer) {
      ModelInfo model;
      model.num_heads = model.num_kv_heads = model.head_dim = 1;
      attending_.push_back({static_cast<int>(layer), model, LayerAttention(1.0)});
    }
    logits_ = std::move(logits);
  }
  std::vector<AttendingLayer>& layers() { return attending_; }

  std::span<const float> residual_change(int layer) const override { return changes[layer]; }

 protected:
  const std::vector<AttendingLayer>& attending() const override { return attending_; }
  Matrix queries(int, int) const override { return Matrix::Ones(1, 1); }
  MatrixView keys(int layer, int) const override {
    const std::vector<float>& own = logits_[layer];
    return {own.data(), std::ssize(own), 1, Eigen::OuterStride<>(1)};
  }

 private:
  std::vector<AttendingLayer> attending_;
  std::vector<std::vector<float>> logits_;
};

/// The scores of these tokens, the last of which was just read.
std::vector<float> scores_of(const std::string& spec, WholePass& pass,
                             std::vector<std::int32_t> tokens, int prompt, int layers) {
  const PolicySpec policy = parse_policy(spec);
  LayerContext context;
  context.model.num_layers = layers;
  context.model.num_heads = context.model.num_kv_heads = 1;
  context.budget = 100;
  context.prompt_length = prompt;
  context.pass = &pass;
  const auto score =
      find_policy(policy.score().name)->as<ScoreBuilder>()->make(policy.score(), context);
  StepView view;
  view.block = {tokens.back(), tokens.back() + 1};
  view.caches.push_back({tokens,
                         {nullptr, 0, 0, Eigen::OuterStride<>(0)},
                         {nullptr, 0, 0, Eigen::OuterStride<>(0)},
                         {}});
  score->observe(view, 0);
  score->prepare(view, context.budget);
  return score->score(view, 0);
}

TEST(EpiKv, ByHand) {
  GivenPass pass;
  // A prompt of three tokens, then four. Layer 1 of the two does not move: its z is 0.
  pass.changes = {{0.0F, 4.0F, 8.0F, 1.0F, 2.0F, 6.0F, 6.0F}, std::vector<float>(7, 3.0F)};
  const auto scores =
      scores_of("epikv(a=0,b=1,window=3,recent=0)", pass, {0, 1, 2, 3, 4, 5, 6}, 3, 2);
  // Token 1 is alone in its window, as token 0 has no change; {4, 8}: 2 over 2. What is written
  // begins anew: 1 alone; {1, 2}: ½ over ½; {1, 2, 6}: 3 over √(14/3); {2, 6, 6}: 4/3 over √(32/9).
  EXPECT_THAT(scores, ElementsAre(0.0F, 0.0F, FloatNear(1.0F, 1e-5F), 0.0F, FloatNear(1.0F, 1e-5F),
                                  FloatNear(1.388730F, 1e-5F), FloatNear(0.707107F, 1e-5F)));
  // Layers the other way round: minus the same. Defaults are 31.25% and 65.625% of the layers.
  const auto turned = scores_of("epikv(a=1,b=0,window=3,recent=0)", pass, {3, 5}, 3, 2);
  EXPECT_THAT(turned, ElementsAre(0.0F, FloatNear(-1.388730F, 1e-5F)));
  EXPECT_EQ(scores_of("epikv(window=3,recent=0)", pass, {3, 5}, 3, 2),
            scores_of("epikv(a=0,b=1,window=3,recent=0)", pass, {3, 5}, 3, 2));
  const SpecPart part = parse_policy("epikv").score();
  EXPECT_EQ(part.share("a", 32), 10);
  EXPECT_EQ(part.share("b", 32), 21);
}

TEST(ThinKv, ByHand) {
  GivenPass pass;
  // Weights 1, 1 | 7, 1 | 3, 1 of 14: entropies ln 2, 0.377, 0.562. Of three segments the two lower
  // are reasoning and the highest is execution.
  std::vector<float> logits;
  for (const float weight : {1.0F, 1.0F, 7.0F, 1.0F, 3.0F, 1.0F})
    logits.push_back(std::log(weight));
  pass.attend({logits});
  const float rest = 1.0F / 14.0F;
  EXPECT_THAT(scores_of("thinkv(segment=2,reasoning=1,execution=0,transition=0,recent=0)", pass,
                        {0, 1, 2, 3, 4, 5}, 0, 1),
              ElementsAre(FloatNear(rest, 1e-6F), FloatNear(rest, 1e-6F), 2.5F,
                          FloatNear(rest, 1e-6F), 1.5F, FloatNear(rest, 1e-6F)));
  // The last entries are apart and cut no segment: of two segments the higher is execution. They
  // have the largest of the other scores.
  EXPECT_THAT(scores_of("thinkv(segment=2,reasoning=1,execution=2,transition=0,recent=2)", pass,
                        {0, 1, 2, 3, 4, 5}, 0, 1),
              ElementsAre(2.0F, 2.5F, 1.5F, FloatNear(rest, 1e-6F), 2.5F, 2.5F));
}

TEST(ThinKv, ClassesAreDividedWhereTheDensityIsLowest) {
  // Three groups of ten segments of two entries. Thirds would count the lowest of a group to the
  // class below.
  GivenPass pass;
  std::vector<float> logits;
  std::vector<std::int32_t> tokens;
  for (const float first : {0.9995F, 0.885F, 0.5F}) {
    for (int i = 0; i < 10; ++i) {
      const float share = first - 0.00004F * static_cast<float>(i);
      for (const float weight : {share, 1.0F - share}) {
        logits.push_back(std::log(weight));
        tokens.push_back(static_cast<std::int32_t>(tokens.size()));
      }
    }
  }
  pass.attend({logits});
  const auto scores = scores_of("thinkv(segment=2,reasoning=2,execution=1,transition=0,recent=0)",
                                pass, tokens, 0, 1);
  EXPECT_EQ(std::count_if(scores.begin(), scores.end(), [](float score) { return score >= 1.0F; }),
            10 * 2 + 10 * 1);
}

TEST(WholePass, AttentionOfTheLastLayers) {
  GivenPass pass;
  pass.attend({{0.0F, 0.0F, 50.0F}, {0.0F, std::log(3.0F), 0.0F}, {std::log(2.0F), 0.0F, 0.0F}});
  const std::vector<std::int32_t> entries = {0, 1};
  const auto two = pass.attention(2, 1, entries);
  EXPECT_THAT(two->last, ElementsAre(DoubleNear(2.0 / 3, 1e-7), DoubleNear(1.0 / 3, 1e-7)));
  EXPECT_THAT(two->mean, ElementsAre(DoubleNear((0.25 + 2.0 / 3) / 2, 1e-7),
                                     DoubleNear((0.75 + 1.0 / 3) / 2, 1e-7)));
  EXPECT_EQ(pass.attention(2, 1, entries), two) << "others ask for the same";
  EXPECT_NE(pass.attention(3, 1, entries)->mean, two->mean);
  EXPECT_EQ(pass.attention(9, 1, entries)->mean, pass.attention(3, 1, entries)->mean);
  // A window of one token, and a sink of the same weight as that token.
  pass.layers().back().model.sliding_window = 1;
  pass.layers().back().rule.sink_logits = {0.0F};
  EXPECT_THAT(pass.attention(1, 2, std::vector<std::int32_t>{0, 2})->last,
              ElementsAre(0.0, DoubleNear(0.5, 1e-12)));
}

struct PassSetting {
  const char* name;
  int window = 0;
  double softcap = 0.0;
  bool sink = false;
};

struct PassPolicies : testing::TestWithParam<PassSetting> {
  void SetUp() override {
    options_.layers = 5;
    options_.prompt_length = 70;
    options_.generated = 60;
    options_.question = 10;
    options_.residual_change = true;
    options_.logsumexp = false;
    options_.sliding_window = GetParam().window;
    options_.layer_attributes.resize(5);
    for (LayerAttributes& layer : options_.layer_attributes) {
      layer.attention_softcap = GetParam().softcap;
      if (GetParam().sink) layer.sink_logits = {0.5F, 1.0F, 2.0F, 0.0F};
    }
    test::write_synthetic_trace(path(), options_);
    trace_ = std::make_unique<Trace>(path());
    for (int layer = 0; layer < 5; ++layer) {
      states_.push_back(load_layer_states(*trace_, layer));
      pass_.changes.push_back(trace_->residual_change(layer));
    }
    for (int layer = 0; layer < 5; ++layer) {
      pass_.layers.push_back(
          {&states_[layer], trace_->layer_model(layer), trace_->attention(layer)});
    }
  }
  std::filesystem::path path() const { return folder_ / "trace.h5"; }
  Replay replayed(const std::string& spec, int budget, int block) const {
    ReplayRequest request{.policy = parse_policy(spec), .budget = budget, .block = block};
    return replay(*trace_, request, test::unwatched);
  }

  test::TemporaryFolder folder_;
  test::SyntheticTraceOptions options_;
  std::unique_ptr<Trace> trace_;
  std::vector<LayerStates> states_;
  naive::NaivePass pass_;
};

TEST_P(PassPolicies, FastEqualsNaive) {
  long decisions = 0;
  for (const std::string spec :
       {"epikv", "epikv(a=3,b=0,window=7,recent=5)+protect_prompt(1)", "epikv+every(16)+only",
        "epikv(recent=0)+sinks", "thinkv(segment=8,reasoning=4,execution=2,transition=1)",
        "thinkv(segment=5,reasoning=3,execution=1,transition=0,layers=1,recent=0)+every(8)",
        "thinkv(segment=16,layers=9)+only", "thinkv(segment=4,reasoning=2)+recent(3)+pyramid"}) {
    for (const int block : {16, 70}) {
      const int budget = spec.find("(1)") != std::string::npos ? 20 : 40;
      const Replay fast = replayed(spec, budget, block);
      for (int layer = 0; layer < 5; ++layer) {
        const naive::Comparison result =
            naive::compare(fast, layer, states_[layer], trace_->layer_model(layer),
                           trace_->attention(layer), nullptr, options_.prompt_length, {}, &pass_);
        EXPECT_EQ(result.failure, "");
        decisions += result.decisions;
      }
    }
  }
  EXPECT_GT(decisions, 10000);
}

TEST_P(PassPolicies, OneSetForAllHeadsAndLayers) {
  for (const std::string spec :
       {"epikv", "thinkv(segment=8,reasoning=4,execution=2,transition=1)"}) {
    const Replay made = replayed(spec, 40, 16);
    const auto first = made.retained_at(made.heads.front(), 30);
    for (const HeadReplay& head : made.heads) {
      const auto own = made.retained_at(head, 30);
      EXPECT_TRUE(std::equal(own.begin(), own.end(), first.begin(), first.end())) << spec;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, PassPolicies,
                         testing::Values(PassSetting{"Plain"}, PassSetting{"Window", 50},
                                         PassSetting{"CapAndSink", 0, 20.0, true}),
                         [](const auto& info) { return std::string(info.param.name); });

std::string said_by(const std::function<void()>& work) { return test::error_of<UsageError>(work); }

TEST(PassPoliciesRefuse, WhatIsNotThere) {
  const test::TemporaryFolder folder;
  const std::filesystem::path path = folder / "plain.h5";
  test::write_synthetic_trace(path);
  const Trace trace(path);
  EXPECT_FALSE(trace.has_residual_change());
  EXPECT_TRUE(trace.residual_change(0).empty());
  ReplayRequest request{.policy = parse_policy("epikv"), .budget = 20};
  EXPECT_THAT(said_by([&] { replay(trace, request, test::unwatched); }),
              HasSubstr("has no residual_change, the change of the residual stream"));
  request.policy = parse_policy("epikv(a=7)");
  EXPECT_THAT(said_by([&] { replay(trace, request, test::unwatched); }),
              HasSubstr("epikv: a=7: the model has layers 0 to 1"));
  request.policy = parse_policy("thinkv");
  EXPECT_NO_THROW(replay(trace, request, test::unwatched));
  // A program in which each layer decides by itself.
  for (const char* spec : {"epikv", "thinkv"}) {
    EXPECT_THAT(said_by([&] { check_closed_loop(parse_policy(spec), false, false, false); }),
                HasSubstr("decides once all layers have read a block"));
    EXPECT_NO_THROW(check_closed_loop(parse_policy(spec)));
    EXPECT_THAT(said_by([&] { check_combination(parse_policy(std::string(spec) + "+adakv")); }),
                HasSubstr("keeps one set for the heads of a layer"));
  }
}

}  // namespace
}  // namespace kvloupe
