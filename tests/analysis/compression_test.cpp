// Replays that stop evicting at the question.

#include "analysis/replay/measure/measure_catalog.h"
#include "analysis/replay/measure_replay.h"
#include "analysis/replay/sweep.h"
#include "analysis/trace/segments.h"
#include "tests/support/record_values.h"
#include "tests/support/test.h"

namespace kvloupe {
namespace {

constexpr int kContext = 80, kPrompt = 96, kTokens = 104;

struct CompressionTest : testing::Test, test::MadeTrace {
  CompressionTest() : MadeTrace({.question = kPrompt - kContext}) {}  // T = 96 + 8, B = 32
  Replay run(const std::string& policy, int block, std::optional<Compression> compression) {
    return MadeTrace::run(policy, 20, {.block = block, .compression = compression});
  }
};

TEST_F(CompressionTest, TheQuestionHasItsOwnBlocksAndEvictsNothing) {
  for (const std::string policy :
       {"h2o", "keydiff", "snapkv(8)", "sink", "h2o+kvmerger", "keydiff+adakv", "h2o+cam"}) {
    for (const int block : {1, 7, 32, kWholePrompt}) {
      SCOPED_TRACE(policy + ", block " + std::to_string(block));
      const Replay result = run(policy, block, Compression::context_only);
      EXPECT_EQ(result.acts_until, kContext);
      EXPECT_EQ(result.compression, Compression::context_only);
      EXPECT_EQ(result.block, block == kWholePrompt ? kPrompt : block);
      int context_steps = 0, end = 0;
      for (std::size_t step = 0; step < result.blocks.size(); ++step) {
        const Block& one = result.blocks[step];
        EXPECT_EQ(one.first, end);
        EXPECT_TRUE(one.end <= kContext || one.first >= kContext) << "a block crosses the border";
        EXPECT_EQ(result.acts_at(static_cast<int>(step)), one.end <= kContext);
        context_steps += one.end <= kContext ? 1 : 0;
        end = one.end;
      }
      EXPECT_EQ(end, kTokens);
      for (const HeadReplay& head : result.heads) {
        for (std::size_t token = 0; token < head.evicted_at.size(); ++token) {
          EXPECT_LT(head.evicted_at[token], context_steps);
          if (token >= kContext) {
            EXPECT_EQ(head.evicted_at[token], -1);
          }
        }
        const StepRecord& last = head.steps.back();
        EXPECT_EQ(last.retained, last.cache_size);
        EXPECT_TRUE(last.merges.empty());
        EXPECT_TRUE(last.gifts.empty());
      }
    }
  }
}

// The policy decides about the context as about a prompt that ends there.
TEST_F(CompressionTest, DecidesAsIfThePromptEndedBeforeTheQuestion) {
  for (const std::string policy : {"h2o", "snapkv(8)", "tova", "h2o+kvmerger", "oracle(4)"}) {
    for (const int block : {16, kWholePrompt}) {
      SCOPED_TRACE(policy);
      const Replay stopped = run(policy, block, Compression::context_only);
      const Replay regular = run(policy, block == kWholePrompt ? kContext : block, {});
      for (std::size_t i = 0; i < stopped.heads.size(); ++i) {
        const int last = block == kWholePrompt ? 0 : kContext / block - 1;
        for (int step = 0; step <= last; ++step) {
          EXPECT_EQ(stopped.retained_at(stopped.heads[i], step),
                    regular.retained_at(regular.heads[i], step));
        }
      }
    }
  }
}

TEST_F(CompressionTest, WithoutAQuestionThePolicyActsUpToThePromptsEnd) {
  options_.question = 0;
  trace_.reset();
  const Replay stopped = run("h2o", 32, Compression::context_only);
  const Replay regular = run("h2o", 32, Compression::regular);
  EXPECT_EQ(stopped.acts_until, kPrompt);
  for (std::size_t i = 0; i < stopped.heads.size(); ++i) {
    EXPECT_EQ(stopped.retained_at(stopped.heads[i], 2), regular.retained_at(regular.heads[i], 2));
    EXPECT_EQ(stopped.heads[i].steps.back().retained, 20 + 8);
    EXPECT_EQ(regular.heads[i].steps.back().retained, 20);
  }
}

TEST_F(CompressionTest, MeasuresOnRequestAreThoseOfTheReplay) {
  for (const std::string policy : {"h2o", "h2o+kvmerger"}) {
    const Replay whole = run(policy, 16, Compression::context_only);
    const Replay bare = MadeTrace::run(
        policy, 20, {.block = 16, .compression = Compression::context_only, .metrics = false});
    const Replay measured =
        measure_replay(*trace_, bare, {.measures = {"perturbation_l1"}}, test::unwatched);
    const Measure& measure = require_measure("perturbation_l1");
    for (const auto& [i, step] : test::cells(whole.heads.size(), whole.blocks.size())) {
      EXPECT_EQ(measure_at(measure, whole.heads[i].steps[step]),
                measure_at(measure, measured.heads[i].steps[step]));
    }
  }
}

TEST_F(CompressionTest, JsonAndSweepsSayIt) {
  const auto json = nlohmann::json::parse(test::json_of(run("h2o", 32, Compression::context_only)));
  EXPECT_EQ(json["compression"], "context-only");
  EXPECT_EQ(json["acts_until"], kContext);
  EXPECT_FALSE(nlohmann::json::parse(test::json_of(run("h2o", 32, {}))).contains("compression"));

  SweepTable table;
  const std::string path = this->path("out.csv");
  for (const auto compression : {Compression::regular, Compression::context_only}) {
    SweepRequest request{{parse_policy("h2o")}, {parse_budget("20")}, {kWholePrompt}, compression};
    run_sweep(
        *trace_, sweep_settings(*trace_, request), path, table, test::unwatched,
        [](std::size_t, std::size_t, const SweepSetting&, bool known) { EXPECT_FALSE(known); });
  }
  const SweepTable read = SweepTable::load(path);
  ASSERT_EQ(read.rows().size(), 8U);
  EXPECT_EQ(read.rows()[0].compression, Compression::regular);
  EXPECT_EQ(read.rows()[7].compression, Compression::context_only);
  EXPECT_EQ(read.rows()[7].block, kPrompt);
}

TEST_F(CompressionTest, APromptThatBeginsWithItsQuestionIsRefused) {
  TokenTable tokens{.segment = {1, 0, 0, 2}, .segment_names = {"question", "special", "context"}};
  RunInfo run{.prompt_length = 4};
  EXPECT_THROW(compression_end(tokens, run, Compression::context_only), UsageError);
  EXPECT_EQ(compression_end(tokens, run, Compression::regular), 4);
  tokens.segment = {1, 2, 0, 0};
  EXPECT_EQ(compression_end(tokens, run, Compression::context_only), 2);
}

}  // namespace
}  // namespace kvloupe
