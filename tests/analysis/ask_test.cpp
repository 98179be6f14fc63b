// Queries of question, answer and later tokens: against plain double loops, and by hand.

#include "analysis/replay/ask.h"
#include "analysis/math/logit_path.h"
#include "analysis/replay/measure/measure_catalog.h"
#include "analysis/replay/measure_replay.h"
#include "analysis/replay/restore.h"
#include "tests/naive/naive_asked.h"
#include "tests/support/test.h"

namespace kvloupe {
namespace {

/// A relative difference of float32 products.
testing::Matcher<double> near(double value) {
  return DoubleNear(value, 2e-5 * std::max(1e-3, std::abs(value)));
}

struct AskTest : testing::Test, test::MadeTrace {
  AskTest() {
    options_ = {.prompt_length = 72, .generated = 5, .question = 9, .block = 16, .clusters = 6};
  }
  Replay run(const std::string& spec, int budget, std::vector<std::string> measures = {}) {
    const bool metrics = !measures.empty();
    return MadeTrace::run(spec, budget,
                          {.metrics = metrics, .measures = std::move(measures), .cheap = false});
  }
  AskedReplay ask_all(const Replay& replay, Asked asked) {
    return ask(trace(), replay, asked, {}, test::unwatched);
  }
  void expect_as_naive(const Replay& replay, Asked asked);
};

void AskTest::expect_as_naive(const Replay& replay, Asked asked) {
  const AskedReplay fast = ask_all(replay, asked);
  ASSERT_FALSE(fast.queries.empty());
  std::vector<std::vector<naive::NaiveAsked>> layers;
  std::vector<const naive::NaiveAsked*> all;
  for (int layer = 0; layer < options_.layers; ++layer) {
    const LayerStates states = load_layer_states(trace(), layer);
    layers.push_back(naive::asked(states, trace().layer_model(layer), trace().attention(layer),
                                  layer, replay, fast.queries));
  }
  std::size_t place = 0;
  double worst = 0.0;
  for (const auto& heads : layers) {
    std::vector<const naive::NaiveAsked*> of_layer;
    for (const naive::NaiveAsked& one : heads) {
      SCOPED_TRACE(place);
      const AskedHead& own = fast.heads[place++];
      EXPECT_THAT(own.kept_attention, near(one.kept));
      EXPECT_THAT(own.output_error, near(one.error / one.norm));
      EXPECT_THAT(own.perturbation_l1, near(one.l1));
      if (std::isnan(one.theta)) {
        EXPECT_TRUE(std::isnan(own.bound_l1));
      } else {
        EXPECT_THAT(own.bound_l1, near(one.theta));
        EXPECT_LE(own.perturbation_l1, own.bound_l1 * 1.00001 + 1e-6);
      }
      of_layer.push_back(&one);
      all.push_back(&one);
    }
    const double error = naive::relative_change(of_layer);
    EXPECT_THAT(fast.layer_errors[&heads - layers.data()], near(error));
    worst = std::max(worst, error);
  }
  EXPECT_THAT(fast.worst_layer_error, near(worst));
  EXPECT_THAT(fast.residual_change, near(naive::relative_change(all)));
}

TEST_F(AskTest, IsWhatPlainLoopsSay) {
  for (const char* spec : {"keydiff", "h2o+recent(50%)", "snapkv(8)+adakv", "tova+caote"}) {
    SCOPED_TRACE(spec);
    const Replay replay = run(spec, 20);
    for (const Asked asked : kAllAsked) expect_as_naive(replay, asked);
  }
}

TEST_F(AskTest, MergedEntriesAreAskedAsTheCacheHoldsThem) {
  for (const char* spec :
       {"keydiff+kvmerger(0.2,recent=0,heavy=0)", "tova+cam", "attentionmatching"}) {
    SCOPED_TRACE(spec);
    const Replay replay = run(spec, 20);
    expect_as_naive(replay, Asked::answer);
  }
}

TEST_F(AskTest, WindowsAndSinksOfLayersCount) {
  options_.logsumexp = false;
  options_.sliding_window = 30;
  options_.layer_attributes.resize(2);
  options_.layer_attributes[0].attention_scale = 0.3;
  options_.layer_attributes[0].sliding_window = 0;
  options_.layer_attributes[1].sink_logits = {0.5F, -1.0F, 2.0F, 0.0F};
  const Replay replay = run("keydiff", 12);
  for (const Asked asked : kAllAsked) expect_as_naive(replay, asked);
}

TEST_F(AskTest, ChunksOfLayersCount) {
  options_.logsumexp = false;
  options_.layer_attributes.resize(2);
  options_.layer_attributes[1].chunk_size = 40;
  for (const char* spec : {"keydiff", "tova+cam"}) {
    SCOPED_TRACE(spec);
    const Replay replay = run(spec, 12);
    for (const Asked asked : kAllAsked) expect_as_naive(replay, asked);
  }
}

TEST_F(AskTest, SeveralReplaysAreAskedAsEachAlone) {
  std::vector<Replay> replays;
  for (const char* spec : {"h2o", "tova", "h2o+kvmerger(auto)", "snapkv"}) {
    for (const int budget : {12, 30}) replays.push_back(run(spec, budget));
  }
  ReplayRequest other{.policy = parse_policy("h2o"), .budget = 12, .metrics = false};
  other.block = 24;  // other steps, and so other entries at the same queries
  replays.push_back(replay(trace(), other, test::unwatched));
  other.layers = {1};  // the whole model is not known
  replays.push_back(replay(trace(), other, test::unwatched));
  std::vector<const Replay*> all;
  for (const Replay& one : replays) all.push_back(&one);

  const auto same = [](double a, double b) { return a == b || (std::isnan(a) && std::isnan(b)); };
  for (const Asked asked : {Asked::question, Asked::answer, Asked::later}) {
    Progress progress;
    const std::vector<AskedReplay> together = ask(trace(), all, asked, {}, progress);
    EXPECT_EQ(progress.fraction(), 1.0);
    ASSERT_EQ(together.size(), replays.size());
    for (std::size_t i = 0; i < replays.size(); ++i) {
      const AskedReplay alone = ask_all(replays[i], asked);
      const AskedReplay& one = together[i];
      EXPECT_EQ(one.queries, alone.queries);
      ASSERT_EQ(one.heads.size(), alone.heads.size());
      for (std::size_t h = 0; h < alone.heads.size(); ++h) {
        EXPECT_TRUE(same(one.heads[h].kept_attention, alone.heads[h].kept_attention)) << i;
        EXPECT_TRUE(same(one.heads[h].output_error, alone.heads[h].output_error)) << i;
        EXPECT_TRUE(same(one.heads[h].perturbation_l1, alone.heads[h].perturbation_l1)) << i;
        EXPECT_TRUE(same(one.heads[h].bound_l1, alone.heads[h].bound_l1)) << i;
        EXPECT_TRUE(same(one.heads[h].effect, alone.heads[h].effect)) << i;
        EXPECT_TRUE(same(one.parts[h], alone.parts[h])) << i;
      }
      for (std::size_t layer = 0; layer < alone.layer_errors.size(); ++layer) {
        EXPECT_TRUE(same(one.layer_errors[layer], alone.layer_errors[layer])) << i;
      }
      EXPECT_TRUE(same(one.residual_change, alone.residual_change)) << i;
      EXPECT_TRUE(same(one.worst_layer_error, alone.worst_layer_error)) << i;
      EXPECT_TRUE(same(one.logit_change, alone.logit_change)) << i;
    }
    EXPECT_NE(together[0].residual_change, together[2].residual_change);
    EXPECT_NE(together[0].residual_change, together[8].residual_change);
    EXPECT_TRUE(std::isnan(together[9].residual_change));
  }
}

TEST_F(AskTest, LogitsChangeByWhatAllHeadsAddTogether) {
  options_.lm_head = true;
  const Replay replay = run("keydiff", 20);
  const AskedReplay answer = ask_all(replay, Asked::answer);
  const LogitPath path(trace());
  double whole = 0.0;
  std::size_t place = 0;
  for (int layer = 0; layer < options_.layers; ++layer) {
    const LayerStates states = load_layer_states(trace(), layer);
    for (const naive::NaiveAsked& head :
         naive::asked(states, trace().layer_model(layer), trace().attention(layer), layer, replay,
                      answer.queries)) {
      double effect = 0.0;
      for (std::size_t q = 0; q < answer.queries.size(); ++q) {
        const int query = answer.queries[q];
        const Eigen::VectorXd gradient =
            path.gradient(query, trace().tokens().ids[static_cast<std::size_t>(query) + 1]);
        for (Eigen::Index i = 0; i < gradient.size(); ++i) {
          effect += gradient[i] * head.change[q][i] / static_cast<double>(answer.queries.size());
        }
      }
      EXPECT_NEAR(answer.heads[place++].effect, effect, 1e-5);
      whole += effect;
    }
  }
  EXPECT_NEAR(answer.logit_change, whole, 1e-5);
  EXPECT_GT(std::abs(whole), 1e-3);
  const std::vector<RestoredHead> restored =
      restored_heads(trace(), replay, {20, 21, 22}, {}, test::unwatched);
  EXPECT_TRUE(std::isfinite(restored.front().effect));
}

TEST_F(AskTest, RowsOfTheOutputHeadAreEnoughForLogits) {
  options_.vocab_size = 400;
  AskedReplay answers[2];
  std::vector<RestoredHead> restored[2];
  for (const int rows : {0, 1}) {
    options_.lm_head = rows == 0;
    options_.lm_head_rows = rows == 1;
    trace_.reset();
    const Replay replay = run("keydiff", 20);
    answers[rows] = ask_all(replay, Asked::answer);
    restored[rows] = restored_heads(trace(), replay, {20, 21, 22}, {}, test::unwatched);
  }
  EXPECT_GT(std::abs(answers[0].logit_change), 1e-3);
  EXPECT_EQ(answers[0].logit_change, answers[1].logit_change);
  for (std::size_t i = 0; i < restored[0].size(); ++i) {
    EXPECT_EQ(answers[0].heads[i].effect, answers[1].heads[i].effect);
    EXPECT_EQ(restored[0][i].effect, restored[1][i].effect);
  }
}

TEST_F(AskTest, WithoutAnOutputHeadLogitsAreUnknown) {
  const AskedReplay answer = ask_all(run("keydiff", 20), Asked::answer);
  EXPECT_TRUE(std::isnan(answer.logit_change));
  EXPECT_TRUE(std::isnan(answer.heads.front().effect));
}

TEST_F(AskTest, AFullBudgetChangesNothing) {
  const Replay replay = run("keydiff", 77);
  for (const Asked asked : kAllAsked) {
    const AskedReplay answer = ask_all(replay, asked);
    for (const AskedHead& head : answer.heads) {
      EXPECT_DOUBLE_EQ(head.kept_attention, 1.0);
      EXPECT_EQ(head.output_error, 0.0);
      EXPECT_EQ(head.perturbation_l1, 0.0);
      EXPECT_EQ(head.bound_l1, 0.0);
    }
    EXPECT_EQ(answer.residual_change, 0.0);
    EXPECT_EQ(answer.worst_layer_error, 0.0);
  }
}

TEST_F(AskTest, QueriesAreThoseOfQuestionAnswerAndLaterTokens) {
  const auto queries = [&](Asked asked) { return asked_queries(trace(), asked, 16); };
  EXPECT_THAT(queries(Asked::question), ElementsAre(63, 64, 65, 66, 67, 68, 69, 70, 71));
  EXPECT_THAT(queries(Asked::answer), ElementsAre(71, 72, 73, 74, 75));
  EXPECT_EQ(queries(Asked::later).front(), 16);
  EXPECT_EQ(queries(Asked::later).back(), 76);
  EXPECT_EQ(queries(Asked::later).size(), 61U);
  EXPECT_EQ(asked_first(trace().tokens(), trace().run()), Asked::answer);

  TokenTable tokens;
  RunInfo run{.prompt_length = 1000};
  const std::vector<int> sample = asked_queries(tokens, run, Asked::later, 100);
  EXPECT_EQ(sample.size(), static_cast<std::size_t>(kMostLater));
  EXPECT_EQ(sample.back(), 999);
  EXPECT_GE(sample.front(), 100);
  EXPECT_THAT(asked_queries(tokens, run, Asked::answer, 100), IsEmpty());
  EXPECT_EQ(asked_first(tokens, run), Asked::later);
  // A segment "answer" of the prompt is the answer, whatever is generated after it.
  tokens.segment_names = {"context", "answer"};
  tokens.segment.assign(1000, 0);
  tokens.segment[500] = tokens.segment[501] = 1;
  run.generated = 5;
  EXPECT_THAT(asked_queries(tokens, run, Asked::answer, 100), ElementsAre(499, 500));
}

TEST_F(AskTest, MeasuresOfACatalogueHaveTheValues) {
  const std::vector<std::string> names = {"answer_residual_part", "answer_layer_error",
                                          "answer_residual_change", "question_kept_attention"};
  const Replay made = run("keydiff", 20, names);
  const AskedReplay answer = ask_all(made, Asked::answer);
  const AskedReplay question = ask_all(made, Asked::question);
  const Replay measured =
      measure_replay(trace(), run("keydiff", 20), {.measures = names}, test::unwatched);
  double squares = 0.0;
  for (std::size_t i = 0; i < made.heads.size(); ++i) {
    for (const Replay* replay : {&made, &measured}) {
      const HeadReplay& head = replay->heads[i];
      const auto value = [&](const char* name) { return measure_of(require_measure(name), head); };
      EXPECT_EQ(value("answer_residual_part"), answer.parts[i]);
      EXPECT_EQ(value("answer_layer_error"), answer.layer_errors[head.layer]);
      EXPECT_EQ(value("answer_residual_change"), answer.residual_change);
      EXPECT_EQ(value("question_kept_attention"), question.heads[i].kept_attention);
      EXPECT_TRUE(std::isnan(value("later_residual_change")));
    }
    squares += answer.parts[i];
  }
  // Heads are added before the norm: the whole is at most the sum of the parts.
  EXPECT_LE(answer.residual_change, squares);
  EXPECT_GT(answer.residual_change, 0.0);
}

TEST_F(AskTest, TheCatalogueSaysWhichMeasuresRankHeads) {
  const Replay made = run("keydiff", 20, {"all"});
  for (const Measure& measure : all_measures()) {
    std::set<double> values;
    for (const HeadReplay& head : made.heads) {
      const bool by_layer = measure.info->one_value_for == OneValueFor::layer;
      if (by_layer && head.layer != made.heads.front().layer) break;
      const double value = measure_of(measure, head);
      if (!std::isnan(value)) values.insert(value);
    }
    if (measure.info->one_value_for != OneValueFor::head) {
      EXPECT_LE(values.size(), 1U) << measure.info->name;
    } else if (measure.family->asked) {
      EXPECT_NE(values.size(), 1U) << measure.info->name;
    }
  }
}

TEST_F(AskTest, ProgressCountsItAsTheLargerPart) {
  Progress progress;
  double largest = 0.0;  // after the last layer, before the later queries are asked
  measure_replay(trace(), run("keydiff", 20), {.measures = {"answer_residual_part"}}, progress,
                 [&](const auto&) { largest = std::max(largest, progress.fraction()); });
  EXPECT_GT(largest, 0.0);
  EXPECT_LT(largest, 0.5);
  EXPECT_EQ(progress.fraction(), 1.0);
}

TEST_F(AskTest, OfSomeHeadsTheWholeModelIsUnknown) {
  const Replay made =
      measure_replay(trace(), run("keydiff", 20), {.measures = {"answer_output_error"}, .head = 1},
                     test::unwatched);
  ASSERT_EQ(made.heads.size(), 2U);
  const auto value = [&](const char* name) {
    return measure_of(require_measure(name), made.heads[0]);
  };
  EXPECT_GT(value("answer_output_error"), 0.0);
  EXPECT_TRUE(std::isnan(value("answer_layer_error")));
  EXPECT_TRUE(std::isnan(value("answer_residual_change")));
}

TEST_F(AskTest, WithoutOutputWeightsOrAnAnswerItIsUnknown) {
  options_.output_weight = false;
  options_.value_out_norms = false;
  options_.generated = 0;
  const Replay replay = run("keydiff", 20);
  const AskedReplay question = ask_all(replay, Asked::question);
  EXPECT_GT(question.heads[0].output_error, 0.0);
  EXPECT_TRUE(std::isnan(question.heads[0].perturbation_l1));
  EXPECT_TRUE(std::isnan(question.residual_change));
  const AskedReplay answer = ask_all(replay, Asked::answer);
  EXPECT_THAT(answer.queries, IsEmpty());
  EXPECT_TRUE(std::isnan(answer.heads[0].kept_attention));
}

}  // namespace
}  // namespace kvloupe
