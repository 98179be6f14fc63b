// When a policy acts: cadence, slack, parts of the sequence, and the protected prompt. Every score
// of the catalogue under every schedule: bounds of what a head holds, steps at which nothing may
// leave, and the naive twin.

#include "analysis/policy/kit/stages.h"
#include "analysis/trace/segments.h"
#include "tests/support/catalogue_parts.h"
#include "tests/support/test.h"

namespace kvloupe {
namespace {

TEST(Schedule, ActsAtEveryNthGeneratedTokenAndAfterEachBlockOfThePrompt) {
  const Schedule third{.every = 3};
  std::string acts;
  for (const Block& block : make_blocks(10, 7, 4)) acts += third.acts(block, 10) ? '1' : '0';
  EXPECT_EQ(acts, "1110010010");
}

TEST(Schedule, ABlockOfSeveralGeneratedTokensActsIfOneOfThemIsAnNth) {
  const Schedule fourth{.every = 4};
  EXPECT_FALSE(fourth.acts({10, 13}, 10));  // tokens 1 to 3
  EXPECT_TRUE(fourth.acts({13, 15}, 10));   // 4 and 5
  EXPECT_FALSE(fourth.acts({15, 17}, 10));  // 6 and 7
  EXPECT_TRUE(fourth.acts({8, 14}, 10));    // the prompt's last two, then 1 to 4
  EXPECT_FALSE(fourth.acts({8, 13}, 10));
}

TEST(Schedule, TwoTogetherActWhereBothAct) {
  const Schedule both = Schedule{.every = 2}.with({.slack = 5, .prompt = false});
  EXPECT_EQ(both.every, 2);
  EXPECT_EQ(both.slack, 5);
  EXPECT_FALSE(both.acts({0, 10}, 10));
  EXPECT_FALSE(both.acts({10, 11}, 10));
  EXPECT_TRUE(both.acts({11, 12}, 10));
}

/// A schedule of these tests: what a head may hold at most after a step, beside the budget.
struct ScheduleSetting {
  std::string modifiers;
  int budget;
  int beyond = 0;      // entries beyond the budget, while it acts
  bool prompt = true;  // whether it acts on the prompt
  bool output = true;  // whether it acts on what is generated
  int every = 1;
  bool keeps_prompt = false;
};
std::ostream& operator<<(std::ostream& out, const ScheduleSetting& setting) {
  return out << setting.modifiers << ", budget " << setting.budget;
}

constexpr int kPrompt = 24;
constexpr int kGenerated = 15;

const std::vector<ScheduleSetting>& settings() {
  static const std::vector<ScheduleSetting> all = {
      {"+every(1)", 7},
      {"+every(4)", 7, 3, true, true, 4},
      {"+every(40)", 7, 39, true, true, 40},
      {"+slack(0)", 7},
      {"+slack(5)", 7, 5},
      {"+slack(100%)", 7, 7},
      {"+every(4)+slack(2)", 7, 5, true, true, 4},
      {"+only(prompt)", 7, 0, true, false},
      {"+only", 7, 0, false, true},
      {"+every(6)+only(generated)", 7, 5, false, true, 6},
      {"+protect_prompt", 28, 0, true, true, 1, true},
      {"+every(5)+protect_prompt", 28, 4, true, true, 5, true},
      {"+protect_prompt(1)", 4, kPrompt, true, true, 1, true},
      {"+every(3)+slack(2)+protect_prompt(1)", 4, kPrompt + 4, true, true, 3, true},
  };
  return all;
}

struct ScheduledLayer : test::MadeLayerReplays {
  ScheduledLayer()
      : MadeLayerReplays({.layers = 1,
                          .head_dim = 4,
                          .hidden_size = 6,
                          .prompt_length = kPrompt,
                          .generated = kGenerated,
                          .seed = 33,
                          .clusters = 3}) {
    for (int token = 0; token < options_.tokens(); ++token) {
      structural_.push_back(token % 5 == 0 ? 1 : 0);
    }
    context_.prompt_length = kPrompt;
    context_.structural = &structural_;
    metrics_ = false;
  }
  Replay run(const std::string& text, int budget, int block = 8) const {
    return MadeLayerReplays::run(text, budget, block);
  }

  std::vector<char> structural_;
};

void expect_schedule(const ScheduleSetting& setting, const Replay& replay, bool even) {
  for (const HeadReplay& head : replay.heads) {
    for (std::size_t s = 0; s < replay.blocks.size(); ++s) {
      const Block& block = replay.blocks[s];
      const StepRecord& record = head.steps[s];
      const bool generated = block.first >= kPrompt;
      const int made = block.end - kPrompt;  // generated tokens so far
      const bool may = generated ? setting.output && made % setting.every == 0 : setting.prompt;
      if (!may) {
        ASSERT_EQ(record.retained, record.cache_size) << "step " << s;
      } else if (even) {
        ASSERT_LE(record.retained, setting.budget + setting.beyond) << "step " << s;
      }
      const bool once_acted =
          generated ? setting.output && (setting.prompt || made >= setting.every) : setting.prompt;
      if (once_acted && even) {
        ASSERT_LE(record.retained, setting.budget + setting.beyond) << "step " << s;
      }
      ASSERT_GE(record.retained, std::min(record.cache_size, 1));
    }
    for (int token = 0; setting.keeps_prompt && token < kPrompt; ++token) {
      ASSERT_EQ(head.evicted_at[token], -1) << "token " << token;
    }
  }
}

class ScheduleOfTheCatalogue : public testing::TestWithParam<ScheduleSetting> {};
INSTANTIATE_TEST_SUITE_P(Schedules, ScheduleOfTheCatalogue, testing::ValuesIn(settings()));

TEST_P(ScheduleOfTheCatalogue, HoldsItsBoundsAndAgreesWithItsTwin) {
  const ScheduleSetting& setting = GetParam();
  const ScheduledLayer layer;
  long near_ties = 0, decisions = 0;
  int checked = 0;
  for (const PolicyEntry& score : policy_catalog()) {
    if (score.as<ScoreBuilder>() == nullptr || !test::stands_alone(score)) continue;
    for (const char* rest : {"", "+recent(30%)", "+adakv(0.6)", "+critical", "+kvmerger(auto)"}) {
      const std::string text = test::part_text(score) + rest + setting.modifiers;
      try {
        check_combination(parse_policy(text));
      } catch (const UsageError&) {
        continue;
      }
      SCOPED_TRACE(text);
      for (const int block : {8, 24}) {
        const Replay replay = layer.run(text, setting.budget, block);
        // Under adakv a head may hold more than its share, and others less.
        expect_schedule(setting, replay, std::string(rest).find("adakv") == std::string::npos);
        const naive::Comparison found = layer.compared(replay);
        ASSERT_EQ(found.failure, "");
        near_ties += found.near_ties;
        decisions += found.decisions;
        ++checked;
      }
      if (testing::Test::HasFatalFailure()) return;
    }
  }
  EXPECT_GT(checked, 100);
  EXPECT_LE(near_ties, decisions / 1000);
}

TEST(Schedule, UnderAdakvTheLayerTogetherHoldsAtMostBudgetAndSlack) {
  const ScheduledLayer layer;
  for (const char* text : {"h2o+adakv+slack(3)", "keydiff+adakv+slack(3)"}) {
    const Replay replay = layer.run(text, 6);
    int most = 0;
    for (std::size_t s = 0; s < replay.blocks.size(); ++s) {
      int sum = 0;
      for (const HeadReplay& head : replay.heads) sum += head.steps[s].retained;
      most = std::max(most, sum);
    }
    EXPECT_LE(most, 2 * (6 + 3));
    EXPECT_GT(most, 2 * 6) << "the slack is used";
  }
}

TEST(Schedule, EveryOneAndSlackZeroChangeNothing) {
  const ScheduledLayer layer;
  for (const char* score : {"h2o", "rkv(3,kernel=3)", "snapkv(3,kernel=3)+adakv"}) {
    for (const char* with : {"+every(1)", "+slack(0)", "+every(1)+slack(0)"}) {
      const std::string text = std::string(score) + with;
      test::expect_same_sets(layer.run(score, 7), layer.run(text, 7), text);
    }
  }
}

TEST(Boundaries, KeepTokenZeroAndTheLatestStructuralTokens) {
  const ScheduledLayer layer;  // every fifth token is structural
  const Replay replay = layer.run("keynorm+boundaries(3)", 6, 24);
  for (const HeadReplay& head : replay.heads) {
    // At the end of the prompt token 0 and the latest two of 5, 10, 15, 20.
    const auto kept = replay.retained_at(head, 0);
    EXPECT_THAT(kept, testing::IsSupersetOf({0, 15, 20}));
  }
  for (const char* text : {"keynorm+boundaries(3)", "h2o+boundaries(50%)+recent(2)+sinks(2)",
                           "random+boundaries(50%)+every(4)", "keydiff+boundaries(2)+adakv"}) {
    for (const int block : {1, 8, 24}) {
      EXPECT_EQ(layer.compared(layer.run(text, 8, block)).failure, "") << text;
    }
  }
}

TEST(Boundaries, StructuralTokensByTheirText) {
  TokenTable tokens{
      .text = {"The", " cat", ".", "\n", " sat", "<|im_end|>", "?", "a)", " (", "Yes", "。"},
      .segment = {0, 0, 0, 0, 1, 1, 1, 1, 1, 2, 2},
      .segment_names = {"context", "question", "special"}};
  const std::vector<char> found = structural_tokens(tokens);
  EXPECT_EQ(std::string(found.begin(), found.end()), std::string("\1\0\1\1\1\1\1\0\1\1\1", 11));
  tokens.text.clear();
  EXPECT_TRUE(structural_tokens(tokens).empty());
}

std::string refused(const std::string& text, const RunShape& run = {24, 15, 8}) {
  return test::error_of<UsageError>([&] {
    const PolicySpec policy = parse_policy(text);
    check_combination(policy);
    check_run(policy, run);
  });
}

TEST(Schedule, RefusesWhatHasNoMeaning) {
  EXPECT_EQ(refused("h2o+every(4)+slack(3)+only"), "");
  EXPECT_THAT(refused("h2o+every(64)", {24, 0, 8}),
              HasSubstr("every: counts generated tokens, and here the policy acts on none; run the "
                        "model with --generate N"));
  EXPECT_THAT(refused("h2o+only", {24, 0, 8}), HasSubstr("take only(prompt)"));
  EXPECT_EQ(refused("h2o+only(prompt)", {24, 0, 8}), "");
  EXPECT_THAT(refused("h2o+every(4)+only(prompt)"), HasSubstr("remove one of the two"));
  EXPECT_THAT(refused("h2o+every(4)", {0, -1, 8}), HasSubstr("where the prompt ends"));
  EXPECT_THAT(
      refused("h2o+protect_prompt", {24, 15, 24}),
      HasSubstr("the prompt of 24 tokens leaves no place in the budget of 24 entries; raise "
                "the budget, or keep the prompt beside it with extra=1"));
  EXPECT_EQ(refused("h2o+protect_prompt(1)", {24, 15, 4}), "");
  EXPECT_THAT(refused("h2o+adakv+protect_prompt(1)"), HasSubstr("use extra=0"));
  EXPECT_THAT(refused("keydiff+dms(0)+slack"), HasSubstr("waits until a budget is exceeded"));
  EXPECT_THAT(refused("kvzip+global+slack"), HasSubstr("no head has a budget of its own"));
  EXPECT_THAT(refused("full+every"), HasSubstr("full makes all decisions itself"));
  EXPECT_THAT(refused("h2o+every(0)"), HasSubstr("n is out of range 1 to 1000000"));
}

// On a trace, through replay(): context-only never acts on what is generated.
TEST(Schedule, ACadenceWithoutGeneratedTokensIsRefusedBeforeTheReplay) {
  const test::TemporaryFolder folder;
  test::SyntheticTraceOptions options{.layers = 1, .prompt_length = 32, .generated = 0};
  test::write_synthetic_trace(folder / "prompt.h5", options);
  options.generated = 8;
  test::write_synthetic_trace(folder / "written.h5", options);
  const auto failure = [&](const char* file, const char* spec, Compression compression) {
    const Trace trace(folder / file);
    ReplayRequest request{.policy = parse_policy(spec), .budget = 8, .compression = compression};
    return test::error_of<UsageError>([&] { replay(trace, request, test::unwatched); });
  };
  EXPECT_THAT(failure("prompt.h5", "h2o+every(4)", Compression::regular),
              HasSubstr("--generate N"));
  EXPECT_EQ(failure("written.h5", "h2o+every(4)", Compression::regular), "");
  EXPECT_THAT(failure("written.h5", "h2o+every(4)", Compression::context_only),
              HasSubstr("--compression regular"));
  EXPECT_THAT(failure("written.h5", "h2o+protect_prompt", Compression::regular),
              HasSubstr("the prompt of 32 tokens"));
  EXPECT_EQ(failure("written.h5", "h2o+boundaries", Compression::regular), "");
}

}  // namespace
}  // namespace kvloupe
