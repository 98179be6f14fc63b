// quant: entries in few bits. Groups by hand, every score of the catalogue with quant against the
// naive twin, what must hold as bits and the residual grow, bytes, and what is refused.

#include "analysis/math/quantisation.h"
#include "analysis/replay/ask.h"
#include "analysis/replay/cache/head_cache.h"
#include "analysis/replay/follow_json.h"
#include "analysis/replay/held_bytes.h"
#include "analysis/replay/measure_replay.h"
#include "analysis/replay/typed_values.h"
#include "tests/support/catalogue_parts.h"
#include "tests/support/record_values.h"
#include "tests/support/test.h"

namespace kvloupe {
namespace {

std::string problem_of_quant(const std::string& text) {
  return test::error_of<UsageError>([&] { check_combination(parse_policy(text)); });
}

TEST(Quantisation, AGroupByHand) {
  Matrix row(1, 5);
  row << 0.0F, 1.0F, 2.2F, 3.0F, -7.0F;
  quantise_rows(row, 0, 1, false, 2, 4);  // 0 to 3 in steps of 1, then -7 alone
  EXPECT_THAT(std::vector<float>(row.data(), row.data() + 5),
              ElementsAre(0.0F, 1.0F, 2.0F, 3.0F, -7.0F));
  Matrix columns(4, 2);
  columns << 0, 10, 1, 10, 5, 10, 6, 10;
  quantise_rows(columns, 0, 4, true, 2, 2);  // two entries at a time: the ends are exact
  EXPECT_EQ(columns(1, 0), 1.0F);
  EXPECT_EQ(columns(2, 0), 5.0F);
  EXPECT_EQ(columns(3, 1), 10.0F);           // equal numbers stay
  quantise_rows(columns, 0, 4, true, 2, 4);  // 0 to 6 in steps of 2: a half goes up
  EXPECT_EQ(columns(0, 0), 0.0F);
  EXPECT_EQ(columns(1, 0), 2.0F);
  EXPECT_EQ(columns(2, 0), 6.0F);
}

TEST(Quantisation, TheErrorOfANumberIsAtMostHalfAStepAndEndsWithTheBits) {
  const Matrix exact = Matrix::Random(32, 8);
  double before = 10.0;
  for (const int bits : {2, 4, 8, 12, 16}) {
    Matrix rounded = exact;
    quantise_rows(rounded, 0, 32, true, bits, 16);
    double worst = 0.0;
    for (int half : {0, 16}) {
      for (int c = 0; c < 8; ++c) {
        const auto own = exact.block(half, c, 16, 1);
        const double step =
            static_cast<double>(own.maxCoeff() - own.minCoeff()) / (std::ldexp(1.0, bits) - 1.0);
        const double error =
            static_cast<double>((own - rounded.block(half, c, 16, 1)).cwiseAbs().maxCoeff());
        EXPECT_LE(error, 0.5 * step + 1e-6);
        worst = std::max(worst, error);
      }
    }
    EXPECT_LT(worst, 0.5 * before);
    before = worst;
  }
  EXPECT_LT(before, 1e-4);
}

TEST(HeadCacheInFewBits, GroupsWaitUntilTheyAreWholeAndStayWhileAnEntryIsLeft) {
  const Matrix states = Matrix::Random(24, 4);
  HeadCache cache(4, 4, true);
  cache.append({0, 24}, view(states), view(states));
  const Quantisation quantisation{4, 8, true, false, 3};
  const RoundedRows first = cache.quantise(quantisation, false);
  EXPECT_EQ(first.keys.size(), 16);
  EXPECT_EQ(first.values.size(), 21);
  EXPECT_EQ(cache.stored().keys, 16);  // of the 21 that are old enough
  EXPECT_EQ(cache.stored().key_groups, 2);
  EXPECT_EQ(cache.stored().values, 21);
  EXPECT_EQ(cache.view().keys.bottomRows(8), states.bottomRows(8));
  EXPECT_EQ(cache.view().values.bottomRows(3), states.bottomRows(3));
  const Matrix keys = cache.view().keys;
  const std::vector<std::int32_t> kept = {2, 9, 10, 15, 16, 23};
  cache.keep(kept);
  EXPECT_EQ(cache.stored().keys, 4);
  EXPECT_EQ(cache.stored().key_groups, 2);  // one of them with a single entry
  EXPECT_EQ(cache.stored().values, 5);
  EXPECT_FALSE(cache.quantise(quantisation, false).any());  // nothing is rounded twice
  EXPECT_EQ(cache.stored().keys, 4);
  EXPECT_EQ(Matrix(cache.view().keys), Matrix(keys(kept, Eigen::all)));
  cache.keep(std::vector<std::int32_t>{1, 2, 3, 4, 5});
  EXPECT_EQ(cache.stored().key_groups, 1);
}

TEST(HeadCacheInFewBits, ValuesThatAreAPartOfTheKeysAreTheRoundedKeys) {
  const Matrix keys = Matrix::Random(16, 6);
  HeadCache cache(6, 4, true);
  const Matrix values = keys.leftCols(4);
  cache.append({0, 16}, view(keys), view(values));
  cache.quantise({2, 8, true, false, 4}, true);
  EXPECT_NE(Matrix(cache.view().keys), keys);
  EXPECT_EQ(Matrix(cache.view().values), Matrix(cache.view().keys.leftCols(4)));
}

/// One layer, as the tests of combinations have it.
struct QuantisedLayer : test::MadeLayerReplays {
  explicit QuantisedLayer(int window = 0)
      : MadeLayerReplays({.layers = 1,
                          .head_dim = 4,
                          .hidden_size = 6,
                          .prompt_length = 40,
                          .generated = 3,
                          .sliding_window = window,
                          .seed = 5,
                          .clusters = 3}) {
    context_.prompt_length = options_.prompt_length;
  }
  Replay run(const std::string& text, int budget,
             int acts_until = std::numeric_limits<int>::max()) {
    acts_until_ = acts_until;
    return MadeLayerReplays::run(text, budget, 8);
  }
};

double error_sum(const Replay& replay) {
  double sum = 0.0;
  for (const HeadReplay& head : replay.heads) {
    for (const StepRecord& record : head.steps) {
      for (const QueryHeadMetrics& one : test::metrics_of(record)) sum += one.perturbation_l1;
    }
  }
  return sum;
}

std::string quant_of(int bits, int residual) {
  return "+quant(" + std::to_string(bits) + ",group=8,residual=" + std::to_string(residual) + ")";
}

TEST(Quant, EveryPolicyIsRefusedOrAgreesWithItsTwin) {
  for (const int window : {0, 21}) {
    QuantisedLayer layer(window);
    int tried = 0;
    for (const PolicyEntry& entry : policy_catalog()) {
      if (!test::stands_alone(entry) || entry.kind() == PartKind::removal) continue;
      const std::string part = test::part_text(entry);
      const std::string own = entry.kind() == PartKind::score ? part : "h2o+" + part;
      const std::string text = own + quant_of(4, 3);
      SCOPED_TRACE(text);
      const std::string refusal = problem_of_quant(text);
      if (makes_entries(parse_policy(own))) {
        EXPECT_THAT(refusal, HasSubstr("already stored in few bits"));
        continue;
      }
      if (!refusal.empty()) {
        EXPECT_EQ(problem_of_quant(own).empty(), false);  // not because of quant
        continue;
      }
      const Replay cut = layer.run(text, 18);
      EXPECT_EQ(layer.compared(cut).failure, "");
      EXPECT_GT(cut.heads[0].steps.back().rounded, 0);
      // Two paths to what is held in few bits: the cache, and when tokens left.
      for (const HeadReplay& head : cut.heads) {
        const StoredEntries stored = stored_entries(cut, head, {4, 8, true, false, 3});
        EXPECT_EQ(std::max(stored.keys, stored.values), head.steps.back().rounded);
      }
      ++tried;
    }
    EXPECT_GT(tried, 30);
  }
}

// A policy that stopped knows nothing of the entries that lose bits later.
TEST(Quant, EntriesLoseBitsAfterThePolicyStopped) {
  QuantisedLayer layer;
  for (const std::string score : {"h2o", "keydiff", "keydiff(median)", "lagkv(1,lag=3)", "full"}) {
    SCOPED_TRACE(score);
    const Replay stopped = layer.run(score + quant_of(4, 0), 18, 24);
    for (const HeadReplay& head : stopped.heads) {
      for (const std::int32_t step : head.evicted_at) EXPECT_LE(step, 2);
      EXPECT_GT(head.steps.back().rounded, 18);
      const StoredEntries stored = stored_entries(stopped, head, {4, 8, true, false, 0});
      EXPECT_EQ(std::max(stored.keys, stored.values), head.steps.back().rounded);
    }
  }
}

TEST(Quant, AResidualThatCoversEverythingChangesNoBit) {
  QuantisedLayer layer;
  for (const std::string policy : {"full", "h2o", "keydiff+recent(20%)", "h2o+caote"}) {
    SCOPED_TRACE(policy);
    const Replay exact = layer.run(policy, 18);
    const Replay same = layer.run(policy + quant_of(2, 64), 18);
    for (std::size_t head = 0; head < exact.heads.size(); ++head) {
      EXPECT_EQ(exact.heads[head].evicted_at, same.heads[head].evicted_at);
      for (std::size_t step = 0; step < exact.heads[head].steps.size(); ++step) {
        const auto a = test::metrics_of(exact.heads[head].steps[step]);
        const auto b = test::metrics_of(same.heads[head].steps[step]);
        for (std::size_t q = 0; q < a.size() && !b.empty(); ++q) {
          EXPECT_EQ(a[q].perturbation_l1, b[q].perturbation_l1);
          EXPECT_EQ(a[q].head_error_l2, b[q].head_error_l2);
        }
      }
    }
  }
}

TEST(Quant, TheErrorOfAFullCacheFallsWithBitsAndWithTheResidual) {
  QuantisedLayer layer;
  const double two = error_sum(layer.run("full" + quant_of(2, 0), 18));
  const double four = error_sum(layer.run("full" + quant_of(4, 0), 18));
  const double eight = error_sum(layer.run("full" + quant_of(8, 0), 18));
  EXPECT_GT(two, 2.0 * four);
  EXPECT_GT(four, 8.0 * eight);
  EXPECT_GT(eight, 0.0);
  EXPECT_GT(two, error_sum(layer.run("full" + quant_of(2, 24), 18)));
  EXPECT_EQ(error_sum(layer.run("full" + quant_of(2, 43), 18)), 0.0);
  for (const HeadReplay& head : layer.run("full" + quant_of(2, 0), 18).heads) {
    for (const std::int32_t left : head.evicted_at) EXPECT_EQ(left, -1);
  }
}

struct QuantisedTrace : testing::Test, test::MadeTrace {
  QuantisedTrace() : MadeTrace({.prompt_length = 64, .generated = 4, .block = 16, .clusters = 4}) {}
  Replay run(const std::string& spec, int budget, bool metrics = true) {
    return MadeTrace::run(spec, budget, {.metrics = metrics});
  }
};

TEST_F(QuantisedTrace, WhatIsMeasuredAfterwardsIsWhatTheReplayMeasured) {
  const std::string spec = "h2o" + quant_of(4, 4);
  const Replay at_once = run(spec, 24);
  MeasureRequest request{.measures = {"head_error_l2", "retained_mass"}};
  const Replay later = measure_replay(*trace_, run(spec, 24, false), request, test::unwatched);
  const Measure& error = require_measure("head_error_l2");
  for (std::size_t head = 0; head < later.heads.size(); ++head) {
    EXPECT_EQ(measure_of(error, later.heads[head]), measure_of(error, at_once.heads[head]));
    EXPECT_GT(measure_of(error, later.heads[head]), 0.0);
  }
}

TEST_F(QuantisedTrace, LaterQueriesReadTheRoundedEntries) {
  double before = 1e9;
  for (const int bits : {2, 4, 8}) {
    const AskedReplay answer =
        ask(*trace_, run("full" + quant_of(bits, 4), 24),
            asked_first(trace_->tokens(), trace_->run()), {}, test::unwatched);
    EXPECT_GT(answer.residual_change, 0.0);
    EXPECT_LT(answer.residual_change, 0.5 * before);
    before = answer.residual_change;
  }
}

TEST_F(QuantisedTrace, FollowSaysThatItDoesNotCountBits) {
  ReplayRequest request{.budget = 24};
  for (const bool in_few_bits : {true, false}) {
    request.policy = parse_policy(in_few_bits ? "h2o" + quant_of(4, 4) : "h2o");
    const FollowedReplay followed = follow_tokens(*trace_, request, {3, 4}, test::unwatched);
    EXPECT_EQ(
        testing::Value(followed.replay.notes, Contains(HasSubstr("not what fewer bits cost"))),
        in_few_bits);
  }
}

TEST_F(QuantisedTrace, BytesByHand) {
  // 4 heads of 16 + 16 numbers; 68 tokens, of which 64 are older than the residual.
  const auto held = held_bytes(*trace_, run("full" + quant_of(4, 4), 24));
  ASSERT_TRUE(held);
  const double keys = 64 * 16 * 0.5 + 8 * 16 * 4 + 4 * 16 * 2;    // 8 groups, by channel
  const double values = 64 * 16 * 0.5 + 64 * 2 * 4 + 4 * 16 * 2;  // 2 groups in each entry
  EXPECT_EQ(held->held, 4 * (keys + values));
  EXPECT_EQ(held->full, 4 * 68 * 32 * 2.0);
  EXPECT_THAT(held_bytes_text(*held), HasSubstr("part of it in fewer"));
  EXPECT_EQ(held_bytes(*trace_, run("h2o", 20))->held, 4 * 20 * 32 * 2.0);
}

TEST_F(QuantisedTrace, ABudgetInBytesHoldsMoreEntriesInFewerBits) {
  const auto entries = [&](const std::string& budget, const std::string& policy) {
    return budget_entries(parse_budget(budget), *trace_, parse_policy(policy));
  };
  // 4 heads · 64 bytes an entry; the prompt's full cache: 16384 bytes.
  EXPECT_EQ(entries("5120B", "h2o"), 20);
  EXPECT_EQ(entries("5.375kB", "h2o"), 20);
  EXPECT_EQ(entries("5KiB", "h2o"), 20);
  EXPECT_EQ(entries("25%bytes", "h2o"), 16);
  EXPECT_EQ(entries("25%", "h2o"), 16);
  const int more = entries("25%bytes", "h2o" + quant_of(4, 4));
  EXPECT_EQ(more, 28);  // 4 of 64 bytes, 24 of 32: 16 numbers of 4 bits and 2 scales, twice
  const ModelInfo& model = trace_->layer_model(0);
  const Quantisation held{4, 8, true, false, 4};
  EXPECT_LE(4 * planned_bytes(model, more, held), 4096.0);
  EXPECT_GT(4 * planned_bytes(model, more + 1, held), 4096.0);
  EXPECT_EQ(entries("1GB", "h2o"), trace_->length());
}

TEST_F(QuantisedTrace, BadBudgetsAreRefusedInOneLine) {
  const auto problem = [&](const std::string& budget) -> std::string {
    return test::error_of<UsageError>(
        [&] { budget_entries(parse_budget(budget), *trace_, parse_policy("h2o")); });
  };
  EXPECT_THAT(problem("255B"), HasSubstr("less than the 256B that one entry takes"));
  EXPECT_THAT(problem("0.1%bytes"), HasSubstr("one entry"));
  EXPECT_THAT(problem("0MB"), HasSubstr("must be above 0"));
  EXPECT_THAT(problem("xMB"), HasSubstr("not a number"));
  EXPECT_THAT(problem("12TB"), HasSubstr("not a number"));
  EXPECT_THAT(problem("1e9GB"), HasSubstr("not a number"));
  for (const std::string text : {"12MB", "1.5kB", "25%bytes", "7B"}) {
    EXPECT_EQ(parse_budget(text).text(), text);
    EXPECT_THROW(parse_budget(text).resolve(100), UsageError);
  }
  EXPECT_EQ(parse_budget("2KiB").text(), "2.048kB");
}

TEST(Quant, BadSpecsAreRefusedInOneLine) {
  EXPECT_THAT(problem_of_quant("h2o+quant(3)"), HasSubstr("bits=3: write 2, 4 or 8"));
  EXPECT_THROW(parse_policy("h2o+quant(4,group=0)"), UsageError);
  EXPECT_THROW(parse_policy("h2o+quant(4,group=4)"), UsageError);
  EXPECT_THROW(parse_policy("h2o+quant(4,keys=rows)"), UsageError);
  EXPECT_EQ(problem_of_quant("full+quant"), "");
  EXPECT_THAT(problem_of_quant("full+recent(2)+quant"), HasSubstr("remove the modifiers"));
  EXPECT_NO_THROW(check_closed_loop(parse_policy("h2o+quant")));
  EXPECT_FALSE(keeps_everything(parse_policy("full+quant")));
}

}  // namespace
}  // namespace kvloupe
