// keep and drop: what a person takes into the policy's hand.

#include "analysis/policy/kit/token_rule.h"
#include "tests/support/record_values.h"
#include "tests/support/test.h"

namespace kvloupe {
namespace {

struct Intervention : testing::Test, test::MadeTrace {
  Intervention() : MadeTrace({.prompt_length = 64, .generated = 4, .block = 16, .clusters = 4}) {}
  Replay run(const std::string& spec, int budget = kBudget) { return MadeTrace::run(spec, budget); }
  std::string problem(const std::string& spec, int budget = kBudget) {
    return test::error_of<UsageError>([&] { run(spec, budget); });
  }
  static bool keeps(const Replay& replay, int layer, int head, int token) {
    return replay.find(layer, head)->evicted_at[token] < 0;
  }

  static constexpr int kBudget = 20;
};

/// Scores of attention, of keys and of places, and what stands between them and a decision.
const char* const kPolicies[] = {
    "h2o",          "keydiff",         "random",    "sink(2)",
    "snapkv(4)",    "tova+recent(3)",  "h2o+adakv", "h2o+adakv(mode=mix)",
    "h2o+critical", "keydiff+pyramid", "h2o+caote", "random+sinks(3)",
    "oracle(4)"};

TEST_F(Intervention, WhatIsKeptStaysInTheHeadsNamedAndTakesItsPlaces) {
  for (const std::string policy : kPolicies) {
    const Replay plain = run(policy);
    const Replay kept = run(policy + "+keep(\"9;30-33\", heads=\"0.1;1\")");
    for (const HeadReplay& head : kept.heads) {
      const bool named = head.layer == 1 || head.head == 1;
      for (const int token : {9, 30, 31, 32, 33}) {
        if (named && policy != "keydiff+pyramid") {  // its last layer holds fewer than are named
          EXPECT_TRUE(keeps(kept, head.layer, head.head, token)) << policy;
        }
      }
      for (std::size_t step = 0; step < head.steps.size(); ++step) {
        if (policy.find("adakv") != std::string::npos) continue;
        EXPECT_EQ(head.steps[step].retained,
                  plain.find(head.layer, head.head)->steps[step].retained)
            << policy << ": inside the budget";
      }
      if (!named && policy.find("adakv") == std::string::npos) {
        EXPECT_EQ(head.evicted_at, plain.find(head.layer, head.head)->evicted_at) << policy;
      }
    }
  }
}

TEST_F(Intervention, KeepingEverythingBesideTheBudgetIsTheFullCacheThere) {
  const Replay full = run("full");
  for (const std::string policy : {"h2o", "keydiff", "h2o+critical", "keydiff+pyramid"}) {
    const Replay plain = run(policy);
    const Replay kept = run(policy + "+keep(\"0-\", heads=\"0.1\", extra=1)");
    EXPECT_EQ(kept.find(0, 1)->evicted_at, full.find(0, 1)->evicted_at) << policy;
    for (std::size_t step = 0; step < full.blocks.size(); ++step) {
      for (const auto& metrics : test::metrics_of(kept.find(0, 1)->steps[step])) {
        EXPECT_EQ(metrics.retained_mass, 1.0) << policy;
      }
    }
    for (const auto& [layer, head] : {std::pair{0, 0}, {1, 0}, {1, 1}}) {
      EXPECT_EQ(kept.find(layer, head)->evicted_at, plain.find(layer, head)->evicted_at);
    }
  }
  const Replay all = run("h2o+keep(\"0-67\")", 68);
  for (const HeadReplay& head : all.heads) {
    EXPECT_EQ(head.evicted_at, full.find(head.layer, head.head)->evicted_at);
  }
}

TEST_F(Intervention, WhatIsDroppedLeavesAtTheEndOfItsStep) {
  for (const std::string policy : {"h2o", "keydiff", "h2o+adakv", "h2o+critical", "full",
                                   "h2o+kvmerger", "random+cam", "h2o+sinks(2)", "sink(4)"}) {
    for (const int budget : {kBudget, 68}) {
      const Replay dropped = run(policy + "+drop(\"0;17-18\", heads=\"1.0;0.1\")", budget);
      for (const HeadReplay& head : dropped.heads) {
        const bool named = head.layer != head.head;
        if (!named) continue;
        EXPECT_EQ(head.evicted_at[0], 0) << policy;
        EXPECT_EQ(head.evicted_at[17], 1) << policy;
        EXPECT_EQ(head.evicted_at[18], 1) << policy;
        if (budget == 68) {
          EXPECT_EQ(std::count_if(head.evicted_at.begin(), head.evicted_at.end(),
                                  [](int step) { return step >= 0; }),
                    3)
              << policy << ": nothing else had to leave";
        } else if (policy.find("adakv") == std::string::npos && policy != "full" &&
                   policy.find("kvmerger") == std::string::npos) {
          EXPECT_EQ(head.steps.back().retained, kBudget) << policy << ": others have the room";
        }
      }
      const Replay plain = run(policy, budget);
      if (policy.find("adakv") != std::string::npos) continue;
      EXPECT_EQ(dropped.find(0, 0)->evicted_at, plain.find(0, 0)->evicted_at) << policy;
    }
  }
}

TEST_F(Intervention, WhatIsDroppedLivesOnInNoOther) {
  const Replay dropped = run("h2o+cam(4)+drop(\"0;17-18\")");
  long gifts = 0;
  for (const HeadReplay& head : dropped.heads) {
    for (int step = 0; step < static_cast<int>(dropped.blocks.size()); ++step) {
      for (const Merge& merge : dropped.merges_at(head, step)) {
        for (const int from : merge.from) {
          EXPECT_TRUE(from != 0 && from != 17 && from != 18);
          ++gifts;
        }
      }
    }
  }
  EXPECT_GT(gifts, 100);
  const Replay extra = run("h2o+keep(\"5\",extra=1)+drop(\"5\")");
  for (const HeadReplay& head : extra.heads) {
    for (const StepRecord& step : head.steps) EXPECT_LE(step.retained, kBudget);
  }
}

TEST_F(Intervention, AHeadKeepsAtLeastOneEntry) {
  const Replay dropped = run("h2o+drop(\"0-\")");
  for (const HeadReplay& head : dropped.heads) {
    for (const StepRecord& step : head.steps) EXPECT_EQ(step.retained, 1);
  }
  const Replay both = run("h2o+keep(\"3\")+drop(\"3\")");
  EXPECT_FALSE(keeps(both, 0, 0, 3)) << "what is dropped is not kept";
}

TEST_F(Intervention, AgreesWithTheDoublePrecisionTwin) {
  const char* const rules[] = {"+keep(\"9;30-33\")", "+keep(\"2-4;40-\", heads=\"0.1\", extra=1)",
                               "+drop(\"0;17-18\")", "+drop(\"20-23\", heads=\"0.0\")",
                               "+keep(\"9;30-33\", heads=\"0\")+drop(\"0;12\")"};
  ModelInfo model = states_.model;
  const LayerStates states = test::made_layer(states_, 0);
  long decisions = 0;
  for (const std::string policy : kPolicies) {
    for (const std::string rule : rules) {
      if (rule.find("extra=1") != std::string::npos && policy.find("adakv") != std::string::npos) {
        EXPECT_THAT(problem(policy + rule), HasSubstr("use extra=0"));
        continue;
      }
      if (rule.find("drop") != std::string::npos && policy == "oracle(4)") {
        EXPECT_THAT(problem(policy + rule), HasSubstr("does not know what is dropped"));
        continue;
      }
      ReplayRequest request{
          .policy = parse_policy(policy + rule), .budget = kBudget, .layers = {0}};
      const Replay cut = replay(*trace_, request, test::unwatched);
      const naive::Comparison found =
          naive::compare(cut, 0, states, model, states_.run.attention_scale);
      EXPECT_EQ(found.failure, "") << policy << rule;
      decisions += found.decisions;
    }
  }
  EXPECT_GT(decisions, 200);
}

TEST_F(Intervention, WhatIsNotThereIsSaidInOneLine) {
  EXPECT_THAT(problem("h2o+keep(\"68\")"), HasSubstr("token 68: there are tokens 0 to 67"));
  EXPECT_THAT(problem("h2o+drop(\"3;60-70\")"), HasSubstr("token 70"));
  EXPECT_THAT(problem("h2o+keep(\"0\", heads=\"2\")"), HasSubstr("the model has layers 0 to 1"));
  EXPECT_THAT(problem("h2o+drop(\"0\", heads=\"1.2\")"), HasSubstr("heads 0 to 1"));
  EXPECT_THAT(problem("h2o+keep(\"0-20\")"), HasSubstr("21 tokens do not fit the budget of 20"));
  EXPECT_EQ(problem("h2o+keep(\"0-19;5-10\")"), "") << "tokens named twice count once";
  EXPECT_EQ(problem("h2o+keep(\"0-20\", extra=1)"), "");
  EXPECT_THAT(problem("full+keep(\"0\")"),
              HasSubstr("remove the modifiers other than drop and quant"));
}

TEST_F(Intervention, TextsThatCannotBeReadNameTheColumn) {
  const auto refused = [](const std::string& text) -> std::string {
    return test::error_of<UsageError>([&] { parse_policy(text); });
  };
  EXPECT_THAT(refused("h2o+keep(\"a\")"), HasSubstr("column 11"));
  EXPECT_THAT(refused("h2o+keep(\"5-3\")"), HasSubstr("backwards"));
  EXPECT_THAT(refused("h2o+keep(\"1;;2\")"), HasSubstr("expected tokens"));
  EXPECT_THAT(refused("h2o+keep(\"1 2\")"), HasSubstr("expected ;"));
  EXPECT_THAT(refused("h2o+keep(\"\")"), HasSubstr("tokens is empty"));
  EXPECT_THAT(refused("h2o+keep(\"99999999999\")"), HasSubstr("expected tokens"));
  EXPECT_THAT(refused("h2o+keep(\"1\",heads=\"x\")"), HasSubstr("expected heads"));
  EXPECT_THAT(refused("h2o+keep(\"1\",heads=\"2.\")"), HasSubstr("expected a head"));
  EXPECT_EQ(refused("h2o+keep(\"1, 4-6 ;9-\", heads=\"0.1, 1\")"), "");
  const std::string text = parse_policy("h2o+drop(\"0\")+keep(\"1-2\")").text();
  EXPECT_EQ(parse_policy(text), parse_policy("h2o+keep(\"1-2\")+drop(\"0\")"));
}

TEST(TokenRule, CountsWhatItNames) {
  std::vector<TokenRange> ranges;
  ASSERT_FALSE(read_tokens("3-5;5-9;1;20-", ranges));
  EXPECT_EQ(count_tokens(ranges, 0, "keep"), 8);
  EXPECT_EQ(count_tokens(ranges, 30, "keep"), 18);
  EXPECT_THROW(count_tokens(ranges, 9, "keep"), UsageError);
}

}  // namespace
}  // namespace kvloupe
