// Policies that look at a second reading of the context: kvzip, kvcompose, and global, which shares
// the places of all layers by their scores. Their twins are plain loops in double.

#include "analysis/policy/comparison_terms.h"
#include "analysis/policy/kit/known_scores.h"
#include "analysis/policy/kit/probe_tables.h"
#include "analysis/policy/kit/sequence_tables.h"
#include "tests/naive/naive_probe.h"
#include "tests/support/probe_trace.h"
#include "tests/support/test.h"

namespace kvloupe {
namespace {

/// A probe written down by the test: one layer.
class GivenProbe : public ProbeSource {
 public:
  GivenProbe(ProbeInfo info, LayerProbe layer) : info_(std::move(info)), layer_(std::move(layer)) {}
  const ModelInfo& model() const override { return layer_.model; }
  const std::optional<ProbeInfo>& info() const override { return info_; }
  LayerProbe layer(int, LayerProbeParts) const override { return layer_; }
  std::string name() const override { return ""; }

 private:
  std::optional<ProbeInfo> info_;
  LayerProbe layer_;
};

std::shared_ptr<const KnownScores> known_of(const std::string& spec, const SequenceTables& tables) {
  const PolicySpec policy = parse_policy(spec);
  LayerContext context{.sequence = &tables};
  const auto* builder = find_policy(policy.score().name)->as<ScoreBuilder>();
  return dynamic_cast<KnowsScores&>(*builder->make(policy.score(), context)).known();
}

Matrix column(std::vector<float> values) {
  Matrix result(static_cast<Eigen::Index>(values.size()), 1);
  for (Eigen::Index i = 0; i < result.rows(); ++i) {
    result(i, 0) = values[i];
  }
  return result;
}

TEST(KvZip, ByHand) {
  // d = 1, logits are products. The context has keys 0 and ln 3; the pass a token that asks and the
  // context again: three queries 1, −1, 0, own keys 0.
  ProbeInfo info{"repeat", 2, {7, 8, 9}, {{{0, 3}, {0, 2}}}};
  LayerProbe layer;
  layer.model.num_layers = layer.model.num_heads = layer.model.num_kv_heads = 1;
  layer.model.head_dim = 1;
  layer.attention = 1.0;
  layer.queries = {column({1.0F, -1.0F, 0.0F})};
  layer.own_keys = {column({0.0F, 0.0F, 0.0F})};
  layer.keys = {column({0.0F, std::log(3.0F)})};
  layer.values = {column({2.0F, -3.0F})};
  layer.out_norms = {{10.0F, 4.0F}};
  layer.input_norms = {2.0F, 1.0F, 0.5F};
  const GivenProbe source(info, layer);
  const SequenceTables tables(source, nullptr);
  // Query 0 over [0, ln 3 | 0]: 1, 3, 1 of 5. Query 1 over [0, −ln 3 | 0, 0]: 1, ⅓ of 3⅓. Query 2
  // over five entries of logit 0: ⅕ each.
  const auto zip = known_of("kvzip(sinks=0)", tables);
  EXPECT_NEAR(zip->at(0, 0, 0), 0.3, 1e-6);
  EXPECT_NEAR(zip->at(0, 0, 1), 0.6, 1e-6);
  EXPECT_EQ(zip->at(0, 0, 2), 1.0F) << "the probe does not cover it";
  EXPECT_EQ(known_of("kvzip(sinks=1)", tables)->at(0, 0, 0), 1.0F);
  EXPECT_NEAR(known_of("kvzip(sinks=1,keep_sinks=0)", tables)->at(0, 0, 0), 0.3, 1e-6);
  // Over the input's norm: entry 0 gets 1/5/2, 3/10/1, 1/5/½: 0.4; entry 1: 3/5/2, 1/10, 2/5: 0.4.
  const auto plus = known_of("kvzip(plus=1,sinks=0)", tables);
  EXPECT_NEAR(plus->at(0, 0, 0), 4.0, 1e-5);
  EXPECT_NEAR(plus->at(0, 0, 1), 1.6, 1e-6);
  EXPECT_NEAR(plus->at(0, 0, 2), 4.0, 1e-5) << "no score exceeds it";
  // The first tokens are above all others also where these exceed 1.
  const auto sink = known_of("kvzip(plus=1,sinks=1)", tables);
  EXPECT_NEAR(sink->at(0, 0, 0), 2.6, 1e-6);
  EXPECT_NEAR(sink->at(0, 0, 1), 1.6, 1e-6);
  EXPECT_NEAR(sink->at(0, 0, 2), 2.6, 1e-6);
  // Only the queries of the context itself, 1 and 2: 3/10 and 1/5; the mean over one head added.
  const auto compose = known_of("kvcompose", tables);
  EXPECT_NEAR(compose->at(0, 0, 0), 0.6, 1e-6);
  EXPECT_NEAR(compose->at(0, 0, 1), 0.4, 1e-6);
  const auto values = known_of("kvcompose(values=1,mean=0)", tables);
  EXPECT_NEAR(values->at(0, 0, 0), 0.6, 1e-6);
  EXPECT_NEAR(values->at(0, 0, 1), 0.6, 1e-6);
}

TEST(Global, ByHand) {
  // Two layers of two heads, four tokens.
  const KnownScores scores({{{0.9F, 0.1F, 0.2F, 0.3F}, {0.8F, 0.7F, 0.6F, 0.1F}},
                            {{0.5F, 0.1F, 0.1F, 0.1F}, {0.4F, 0.2F, 0.1F, 0.1F}}},
                           {0, 0});
  // Four places: 0.9, 0.8, 0.7, 0.6.
  EXPECT_THAT(scores.places_of_heads(4, 1), ElementsAre(ElementsAre(1, 3), ElementsAre(0, 0)));
  // Eight: also 0.5, 0.4, 0.3, and of the two of 0.2 the later token.
  EXPECT_THAT(scores.places_of_heads(4, 2), ElementsAre(ElementsAre(3, 3), ElementsAre(1, 1)));
  EXPECT_THAT(scores.places_of_heads(4, 4), ElementsAre(ElementsAre(4, 4), ElementsAre(4, 4)));
  // Composite: 0.85, 0.5, 0.4, 0.1 and 0.45, 0.15, 0.1, 0.1; layer 0 is the larger everywhere.
  EXPECT_THAT(scores.places_of_layers(4, 1), ElementsAre(ElementsAre(2, 2), ElementsAre(0, 0)));
  EXPECT_THAT(scores.places_of_layers(4, 2), ElementsAre(ElementsAre(3, 3), ElementsAre(1, 1)));
  // The first token alone; tokens that the scores do not cover count as 1.
  EXPECT_THAT(scores.places_of_heads(1, 1), ElementsAre(ElementsAre(1, 1), ElementsAre(1, 1)));
  EXPECT_THAT(scores.places_of_heads(5, 1), ElementsAre(ElementsAre(1, 1), ElementsAre(1, 1)));
  // A layer that sees two tokens: after four its next query sees one of them.
  const KnownScores seen({{{0.9F, 0.9F, 0.9F, 0.2F}}, {{0.1F, 0.5F, 0.1F, 0.1F}}},
                         {Reach(2), Reach()});
  EXPECT_THAT(seen.places_of_heads(4, 2), ElementsAre(ElementsAre(1), ElementsAre(3)));
}

struct Setting {
  const char* name;
  int window = 0;
  double softcap = 0.0;
  float sink = 0.0F;
  int request = 5;
  int part = 30;
};

struct ProbePolicies : testing::TestWithParam<Setting> {
  void SetUp() override {
    test::ProbeTraceOptions options;
    options.trace.layers = 3;
    options.trace.query_heads = 4;
    options.trace.heads = 2;
    options.trace.head_dim = 8;
    options.trace.prompt_length = 84;
    options.trace.question = 10;
    options.trace.generated = 6;
    options.trace.block = 16;
    options.trace.sliding_window = GetParam().window;
    options.request = GetParam().request;
    options.part = GetParam().part;
    LayerAttributes attributes;
    attributes.attention_softcap = GetParam().softcap;
    if (GetParam().sink != 0.0F) attributes.sink_logits.assign(4, GetParam().sink);
    options.trace.layer_attributes.assign(3, attributes);
    test::write_probe_trace(folder_ / "trace.h5", options);
    trace_ = std::make_unique<Trace>(folder_ / "trace.h5");
    source_ = probe_of(*trace_);
  }

  /// The twin's scores of all layers, with what they do not cover.
  std::vector<naive::HeadScores> twin(const SpecPart& part) const {
    std::vector<naive::HeadScores> layers;
    for (int layer = 0; layer < 3; ++layer) {
      const LayerProbe states = source_->layer(layer, {true, true});
      layers.push_back(part.name == "kvzip"
                           ? naive::kvzip(*source_->info(), states, part.count("sinks"),
                                          part.count("keep_sinks") == 1, part.count("plus") == 1)
                           : naive::kvcompose(*source_->info(), states, part.count("values") == 1,
                                              part.count("mean") == 1));
    }
    return naive::extended(std::move(layers), trace_->length());
  }

  Replay run(const std::string& spec, int budget, int block,
             std::optional<Compression> compression = {}) const {
    ReplayRequest request{.policy = parse_policy(spec),
                          .budget = budget,
                          .block = block,
                          .compression = compression,
                          .metrics = false};
    return replay(*trace_, request, test::unwatched);
  }

  void compare(const std::string& spec, int budget, int block) const {
    SCOPED_TRACE(spec + ", budget " + std::to_string(budget) + ", block " + std::to_string(block));
    const PolicySpec policy = parse_policy(spec);
    const std::vector<naive::HeadScores> scores = twin(policy.score());
    const std::vector<int> windows(3, trace_->window(0));
    const SpecPart* global = policy.find("global");
    const Replay fast = run(spec, budget, block);
    for (int layer = 0; layer < 3; ++layer) {
      naive::KnownLayer known{scores[layer], [&](int end) {
                                return naive::places(scores, windows, end, budget,
                                                     global->word("by") == "layer")[layer];
                              }};
      const naive::Comparison found =
          naive::compare(fast, layer, load_layer_states(*trace_, layer), trace_->layer_model(layer),
                         trace_->attention(layer), &known);
      ASSERT_EQ(found.failure, "");
      EXPECT_LE(found.near_ties, 2);
    }
  }

  test::TemporaryFolder folder_;
  std::unique_ptr<Trace> trace_;
  std::unique_ptr<ProbeSource> source_;
};

INSTANTIATE_TEST_SUITE_P(Settings, ProbePolicies,
                         testing::Values(Setting{"plain"}, Setting{"window", 21},
                                         Setting{"capped", 0, 2.0, 0.5F},
                                         Setting{"reread", 0, 0.0, 0.0F, 0, 1000},
                                         Setting{"narrow", 9, 3.0, 0.0F, 1, 7}),
                         [](const testing::TestParamInfo<Setting>& info) {
                           return info.param.name;
                         });

TEST_P(ProbePolicies, ScoresAreThoseOfPlainLoops) {
  for (const char* spec :
       {"kvzip", "kvzip(sinks=0)", "kvzip(keep_sinks=0)", "kvzip(plus=1,sinks=9)", "kvcompose",
        "kvcompose(values=1)", "kvcompose(mean=0)"}) {
    const std::vector<naive::HeadScores> wanted = twin(parse_policy(spec).score());
    const SequenceTables tables(*source_, nullptr);
    const auto scores = known_of(spec, tables);
    double largest = 0.0;
    for (const auto& [layer, head, token] : test::cells(3, 2, trace_->length())) {
      const double one = wanted[layer][head][token];
      EXPECT_NEAR(scores->at(layer, head, token), one, 2e-6 * (1.0 + one))
          << spec << " " << layer << " " << head << " " << token;
      if (token < source_->info()->context_end) largest = std::max(largest, one);
    }
    EXPECT_GT(largest, 0.0) << spec;
  }
}

TEST_P(ProbePolicies, DecisionsAreThoseOfTheTwin) {
  for (const int block : {1, 16, 84}) {
    for (const int budget : {1, 6, 20, 50}) {
      compare("kvzip", budget, block);
      compare("kvzip+global", budget, block);
      compare("kvcompose+global(by=layer)", budget, block);
      if (HasFailure()) return;
    }
  }
  for (const char* modifiers :
       {"+adakv(0)", "+adakv", "+recent(3)+sinks(2)", "+recent(30%)+global", "+recent(14)+global",
        "+recent(20)+sinks(3)+global", "+sinks(4)+global(by=layer)", "+critical",
        "+critical+global", "+caote", "+chunks(4)", "+kvmerger(auto,recent=2)", "+tome", "+cam(3)",
        "+pyramid(1.5)", "+tome+global"}) {
    compare(std::string("kvzip(keep_sinks=0)") + modifiers, 12, 16);
    compare(std::string("kvcompose(values=1)") + modifiers, 12, 84);
    if (HasFailure()) return;
  }
}

TEST_P(ProbePolicies, HoldWhatAPolicyMust) {
  for (const char* spec : {"kvzip", "kvzip+global", "kvzip(plus=1)+global", "kvcompose+global",
                           "kvcompose+global(by=layer)", "kvzip+recent(5)+global"}) {
    for (const int block : {1, 16, 84}) {
      const Replay full = run(spec, trace_->length(), block);
      for (const HeadReplay& head : full.heads) {
        for (int token = 0; token < trace_->length(); ++token) {
          EXPECT_TRUE(head.evicted_at[token] < 0 || full.left_unseen(head, token));
        }
      }
      const Replay cut = run(spec, 11, block), again = run(spec, 11, block);
      for (std::size_t step = 0; step < cut.blocks.size(); ++step) {
        int kept = 0;
        for (const HeadReplay& head : cut.heads) {
          EXPECT_GE(head.steps[step].retained, 1);
          kept += head.steps[step].retained;
        }
        // Heads that would hold nothing, or less than what is protected, hold that instead.
        EXPECT_LE(kept, 11 * 6 + 6 * 6) << spec << " " << block << " " << step;
      }
      for (std::size_t head = 0; head < cut.heads.size(); ++head) {
        EXPECT_EQ(cut.heads[head].evicted_at, again.heads[head].evicted_at);
      }
    }
  }
}

TEST_P(ProbePolicies, ContextOnlyEvictsOnceAndNothingOfTheQuestion) {
  const Replay replay = run("kvzip+global", 20, kWholePrompt, Compression::context_only);
  ASSERT_EQ(replay.blocks.front().end, 74);
  for (const HeadReplay& head : replay.heads) {
    for (int token = 0; token < trace_->length(); ++token) {
      const int step = head.evicted_at[token];
      if (replay.left_unseen(head, token)) continue;
      EXPECT_EQ(step, step < 0 ? -1 : 0);
      if (token >= 74) {
        EXPECT_EQ(step, -1);
      }
    }
  }
}

struct ProbeRefusals : testing::Test {
  static std::string refusal(const std::function<void()>& work) {
    return test::error_of<UsageError>(work);
  }
};

TEST_F(ProbeRefusals, ATraceWithoutAProbeSaysHowToGetOne) {
  test::MadeTrace made_trace;
  const Trace& trace = made_trace.trace();
  for (const char* spec : {"kvzip", "kvzip(plus=1)+global", "kvcompose"}) {
    const std::string text = refusal(
        [&] { replay(trace, {.policy = parse_policy(spec), .budget = 10}, test::unwatched); });
    EXPECT_THAT(text, HasSubstr("trace.h5 does not have"));
    EXPECT_THAT(text, HasSubstr("kvloupe-capture run --probe repeat"));
    EXPECT_EQ(text.find('\n'), std::string::npos);
  }
}

TEST_F(ProbeRefusals, GlobalNeedsAScoreOfAllLayers) {
  const auto combine = [](const std::string& spec) {
    return refusal([&] { check_combination(parse_policy(spec)); });
  };
  EXPECT_THAT(combine("h2o+global"), HasSubstr("kvzip or kvcompose"));
  EXPECT_THAT(combine("kvzip+caote+global"), HasSubstr("caote replaces the score"));
  EXPECT_THAT(combine("kvzip+chunks+global"), HasSubstr("one set"));
  EXPECT_THAT(combine("kvzip+pyramid+global"), HasSubstr("pyramid"));
  EXPECT_THAT(combine("kvzip+adakv+global"), HasSubstr("both"));
  EXPECT_EQ(combine("kvzip+recent(4)+critical+global"), "");
}

TEST_F(ProbeRefusals, PerplexityIsMeasuredBeforeAPolicyWithAProbeEvicts) {
  const auto closed = [](bool runs) {
    return refusal([&] { check_closed_loop(parse_policy("kvzip+global"), runs); });
  };
  EXPECT_THAT(closed(false), HasSubstr("run --block all"));
  EXPECT_THAT(closed(false), HasSubstr("Perplexity is measured while the text is read"));
  EXPECT_EQ(closed(true), "");
}

TEST(ProbeTerms, DoNotKnowTheQuestion) {
  const auto question = [](const char* spec, Compression compression, bool at_once) {
    return comparison_terms(parse_policy(spec), compression, at_once);
  };
  for (const char* spec : {"kvzip", "kvcompose+global"}) {
    EXPECT_EQ(question(spec, Compression::regular, true).question, QuestionSeen::agnostic);
    EXPECT_EQ(question(spec, Compression::context_only, true).question, QuestionSeen::agnostic);
    EXPECT_EQ(question(spec, Compression::regular, false).question, QuestionSeen::future);
  }
  EXPECT_THAT(terms_sentences(question("kvzip", Compression::regular, true)).front(),
              HasSubstr("second reading of the context"));
  EXPECT_EQ(question("kvzip+global", Compression::regular, true).budget,
            BudgetCounts::mean_of_both);
  EXPECT_EQ(question("kvzip", Compression::regular, true).budget, BudgetCounts::each_head);
}

}  // namespace
}  // namespace kvloupe
