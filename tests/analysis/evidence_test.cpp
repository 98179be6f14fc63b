// Why the evidence of an answer was lost: against plain double loops, and by hand.

#include "analysis/replay/evidence.h"
#include "analysis/replay/measure/measure_catalog.h"
#include "analysis/replay/measure_replay.h"
#include "tests/naive/naive_evidence.h"
#include "tests/support/model_attribute.h"
#include "tests/support/test.h"

namespace kvloupe {
namespace {

using testing::IsNan;

struct EvidenceTest : testing::Test, test::MadeTrace {
  EvidenceTest() {
    options_ = {.layers = 3,
                .query_heads = 6,
                .heads = 3,
                .prompt_length = 72,
                .generated = 5,
                .block = 16,
                .clusters = 6,
                .sink_logit = 0.0F};  // then some heads read the evidence more than evenly
  }

  const Trace& trace() override {
    if (trace_ == nullptr && last_ > 0) {
      states_ = test::write_synthetic_trace(folder_ / "trace.h5", options_);
      test::mark_segment(folder_ / "trace.h5", kEvidence, 20, last_);
      trace_ = std::make_shared<Trace>(folder_ / "trace.h5");
    }
    return MadeTrace::trace();
  }

  Replay run(const std::string& spec, int budget, std::vector<std::string> measures = {},
             std::vector<int> layers = {}) {
    const bool metrics = !measures.empty();
    return MadeTrace::run(spec, budget,
                          {.layers = std::move(layers),
                           .metrics = metrics,
                           .measures = std::move(measures),
                           .cheap = false});
  }

  EvidenceReplay evidence(const Replay& replay) {
    return evidence_of(trace(), replay, {}, test::unwatched);
  }
  /// The largest share over the heads.
  static double most(const EvidenceReplay& found, double EvidenceHead::*share) {
    double largest = 0.0;
    for (const EvidenceHead& head : found.heads) largest = std::max(largest, head.*share);
    return largest;
  }
  EvidenceReplay expect_as_naive(const std::string& spec, const std::string& uniform, int budget);

  int last_ = 31;  // of the evidence; 0: the trace has none
};

EvidenceReplay EvidenceTest::expect_as_naive(const std::string& spec, const std::string& uniform,
                                             int budget) {
  SCOPED_TRACE(spec);
  const Replay replay = run(spec, budget);
  EvidenceReplay fast = evidence(replay);
  EXPECT_THAT(fast.queries, ElementsAre(71, 72, 73, 74, 75));
  EXPECT_EQ(fast.tokens.size(), static_cast<std::size_t>(last_ - 19));
  const naive::NaiveEvidence slow =
      naive::evidence(trace(), spec, uniform, budget, replay.blocks, fast.tokens, fast.queries);
  EXPECT_EQ(fast.heads.size(), slow.heads.size());
  for (std::size_t i = 0; i < slow.heads.size(); ++i) {
    SCOPED_TRACE(i);
    const EvidenceHead& head = fast.heads[i];
    const naive::NaiveEvidenceHead& twin = slow.heads[i];
    EXPECT_NEAR(head.attention, twin.attention, 1e-5);
    EXPECT_NEAR(head.even, twin.even, 1e-12);
    EXPECT_NEAR(head.kept, twin.kept, 1e-12);
    EXPECT_NEAR(head.unseen, twin.unseen, 1e-12);
    EXPECT_NEAR(head.misranked, twin.misranked, 1e-12);
    EXPECT_NEAR(head.cut, twin.cut, 1e-12);
    EXPECT_NEAR(head.kept + head.unseen + head.misranked + head.cut, 1.0, 1e-12);
  }
  for (std::size_t layer = 0; layer < slow.layer_evicted.size(); ++layer) {
    EXPECT_NEAR(fast.layer_evicted[layer], slow.layer_evicted[layer], 1e-12);
  }
  EXPECT_NEAR(fast.evicted, slow.evicted, 1e-12);
  return fast;
}

TEST_F(EvidenceTest, IsWhatPlainLoopsSay) {
  last_ = 63;  // so much that heads differ in what they keep of it
  const EvidenceReplay keydiff = expect_as_naive("keydiff", "keydiff", 20);
  EXPECT_GT(most(keydiff, &EvidenceHead::kept), 0.0);
  EXPECT_GT(most(keydiff, &EvidenceHead::unseen), 0.0);
  EXPECT_GT(most(keydiff, &EvidenceHead::misranked), 0.0);
  EXPECT_EQ(most(keydiff, &EvidenceHead::cut), 0.0) << "nothing allocates";
  const EvidenceReplay adakv = expect_as_naive("keydiff+adakv(0)", "keydiff", 20);
  EXPECT_GT(most(adakv, &EvidenceHead::cut), 0.0);
  expect_as_naive("h2o", "h2o", 12);
  expect_as_naive("snapkv(8)+adakv", "snapkv(8)", 20);
  const EvidenceReplay pyramid = expect_as_naive("keydiff+pyramid", "keydiff", 20);
  EXPECT_GT(most(pyramid, &EvidenceHead::cut), 0.0);
}

TEST_F(EvidenceTest, TokensOutsideAWindowDoNotCount) {
  options_.logsumexp = false;
  options_.layer_attributes.resize(3);
  options_.layer_attributes[1].sliding_window = 48;  // the last queries see a part of the evidence
  expect_as_naive("h2o", "h2o", 12);
  expect_as_naive("h2o+adakv(0)", "h2o", 12);
}

TEST_F(EvidenceTest, AHeadThatCannotSeeTheEvidenceHasNoShares) {
  options_.logsumexp = false;
  options_.layer_attributes.resize(3);
  options_.layer_attributes[1].sliding_window = 20;
  const EvidenceReplay found = evidence(run("h2o", 12));
  EXPECT_EQ(found.heads[3].attention, 0.0);
  EXPECT_THAT(found.heads[3].kept, IsNan());
  EXPECT_THAT(found.heads[3].cut, IsNan());
  EXPECT_THAT(found.layer_evicted[1], IsNan());
  EXPECT_FALSE(std::isnan(found.evicted)) << "the other layers see it";
}

TEST_F(EvidenceTest, TheModelHoldsWhatOneHeadHolds) {
  const EvidenceReplay full = evidence(run("full", 77));
  for (const EvidenceHead& head : full.heads) EXPECT_EQ(head.kept, 1.0);
  EXPECT_THAT(full.layer_evicted, Each(0.0));
  EXPECT_EQ(full.evicted, 0.0);
  const EvidenceReplay gone = evidence(run(R"(full+drop("20-31"))", 77));
  EXPECT_THAT(gone.layer_evicted, Each(1.0));
  EXPECT_EQ(gone.evicted, 1.0);
  // One head holds 6 of 12 tokens, another of the same layer 3 of these 6 and 3 others.
  const std::string one = R"(sink(1)+keep("20-25",heads="1.0"))";
  const EvidenceReplay held = evidence(run(one, 10));
  EXPECT_THAT(held.layer_evicted, ElementsAre(1.0, 0.5, 1.0));
  EXPECT_EQ(held.evicted, 0.5);
  EXPECT_EQ(held.heads[3].kept, 0.5);
  EXPECT_EQ(held.heads[4].kept, 0.0);
}

TEST_F(EvidenceTest, MeasuresAreThoseOfTheReplay) {
  const std::vector<std::string> names{"evidence_cut", "global_eviction_ratio"};
  const Replay measured = run("h2o+adakv(0)", 12, names);
  const EvidenceReplay found = evidence(measured);
  EXPECT_THAT(measured.notes, Each(Not(HasSubstr("evidence"))));
  for (std::size_t i = 0; i < measured.heads.size(); ++i) {
    const HeadReplay& head = measured.heads[i];
    EXPECT_EQ(measure_of(require_measure("evidence_cut"), head), found.heads[i].cut);
    EXPECT_EQ(measure_of(require_measure("evidence_kept"), head), found.heads[i].kept);
    EXPECT_EQ(measure_of(require_measure("evidence_attention"), head), found.heads[i].attention);
    EXPECT_EQ(measure_of(require_measure("layer_eviction_ratio"), head),
              found.layer_evicted[head.layer]);
    EXPECT_EQ(measure_of(require_measure("global_eviction_ratio"), head), found.evicted);
    EXPECT_TRUE(std::isnan(measure_of(require_measure("answer_kept_attention"), head)))
        << "not asked for";
  }
  MeasureRequest request{.measures = names};
  const Replay later = measure_replay(trace(), run("h2o+adakv(0)", 12), request, test::unwatched);
  EXPECT_EQ(measure_of(require_measure("evidence_cut"), later.heads[2]), found.heads[2].cut);
}

TEST_F(EvidenceTest, APartOfTheModelHasNoGlobalRatio) {
  const EvidenceReplay found = evidence(run("h2o+adakv(0)", 12, {}, {1}));
  const EvidenceReplay whole = evidence(run("h2o+adakv(0)", 12));
  ASSERT_EQ(found.heads.size(), 3U);
  EXPECT_EQ(found.heads[0].cut, whole.heads[3].cut);
  EXPECT_THAT(found.layer_evicted[0], IsNan());
  EXPECT_EQ(found.layer_evicted[1], whole.layer_evicted[1]);
  EXPECT_THAT(found.evicted, IsNan());
}

TEST_F(EvidenceTest, SaysWhatTheTraceLacks) {
  EXPECT_THAT(missing_evidence(trace()), IsEmpty());
  trace_.reset();
  last_ = 0;
  EXPECT_THAT(missing_evidence(trace()), HasSubstr("write the line @@needle"));
  const Replay measured = run("h2o", 12, {"evidence_kept"});
  EXPECT_TRUE(std::isnan(measure_of(require_measure("evidence_kept"), measured.heads[0])));
  ASSERT_EQ(measured.notes.size(), 1U);
  EXPECT_THAT(measured.notes[0], HasSubstr("evidence_kept is not known: the trace has no segment"));
  EXPECT_THAT(run("h2o", 12, {"all"}).notes, IsEmpty());
  trace_.reset();
  last_ = 31;
  options_.generated = 0;
  EXPECT_THAT(missing_evidence(trace()), HasSubstr("capture with --generate"));
}

TEST(WithoutAllocation, TakesOutWhatGivesPlaces) {
  const auto uniform = [](const char* spec) {
    return without_allocation(parse_policy(spec)).text();
  };
  EXPECT_EQ(uniform("snapkv+recent(3)+adakv"), "snapkv+recent(3)");
  EXPECT_EQ(uniform("keydiff+pyramid"), "keydiff");
  EXPECT_EQ(uniform("h2o"), "h2o");
}

}  // namespace
}  // namespace kvloupe
