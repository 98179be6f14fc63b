// Why a token was kept or left.

#include "analysis/replay/explain.h"

#include <gmock/gmock.h>

#include <cmath>

#include "analysis/error.h"
#include "tests/support/synthetic_trace.h"
#include "tests/support/temporary_folder.h"

namespace kvloupe {
namespace {

using testing::HasSubstr;

class ExplainTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = new test::TemporaryFolder;
    test::SyntheticTraceOptions options{.layers = 1, .clusters = 4};
    test::write_synthetic_trace(*folder_ / "trace.h5", options);
    trace_ = new Trace(*folder_ / "trace.h5");
  }
  static void TearDownTestSuite() {
    delete trace_;
    delete folder_;
  }
  static Replay run(const std::string& spec, int budget) {
    ReplayRequest request{
        .policy = parse_policy(spec), .budget = budget, .scores_layer = 0, .scores_head = 1};
    return replay(*trace_, request, test::unwatched);
  }
  static inline test::TemporaryFolder* folder_ = nullptr;
  static inline Trace* trace_ = nullptr;
};

TEST_F(ExplainTest, AgreesWithTheReplayForEveryToken) {
  for (const char* spec :
       {"keydiff", "h2o+recent(4)+sinks(2)", "snapkv(8)", "random+kvmerger(auto)", "h2o+cam(3)"}) {
    const Replay result = run(spec, 20);
    const HeadReplay& head = *result.find(0, 1);
    for (int token = 0; token < trace_->length(); ++token) {
      const TokenExplanation explanation = explain(result, head, token);
      ASSERT_EQ(explanation.left, head.evicted_at[static_cast<std::size_t>(token)]);
      const Block& block = result.blocks[static_cast<std::size_t>(explanation.entered)];
      ASSERT_TRUE(block.first <= token && token < block.end);
      for (const StepReason& reason : explanation.steps) {
        const auto retained = result.retained_at(head, reason.step);
        const bool kept = std::binary_search(retained.begin(), retained.end(), token);
        ASSERT_EQ(kept, reason.fate != Fate::evicted && reason.fate != Fate::merged);
        ASSERT_FALSE(reason_text(explanation, reason).empty());
        ASSERT_GE(reason.rank, 1);
        ASSERT_LE(reason.rank, reason.cache_size);
        if (!reason.decided) continue;
        if (reason.fate == Fate::evicted) {
          ASSERT_LE(reason.margin, 0.0);
        }
        if (reason.fate == Fate::by_score && !std::isnan(reason.threshold)) {
          ASSERT_GE(reason.margin, 0.0);
        }
        if (reason.fate == Fate::merged) {
          ASSERT_FALSE(reason.merges.empty());
        }
      }
    }
  }
}

TEST_F(ExplainTest, RanksAreAPermutation) {
  const Replay result = run("sink(2)", 20);
  const HeadReplay& head = *result.find(0, 1);
  std::vector<int> ranks;
  for (const int token : result.tokens_at(head, 1)) {
    const TokenExplanation explanation = explain(result, head, token);
    ranks.push_back(explanation.steps[static_cast<std::size_t>(1 - explanation.entered)].rank);
  }
  // sink's scores rise with the token: the first ranks last.
  ASSERT_EQ(ranks.front(), static_cast<int>(ranks.size()));
  ASSERT_EQ(ranks.back(), 1);
  std::sort(ranks.begin(), ranks.end());
  for (std::size_t i = 0; i < ranks.size(); ++i) ASSERT_EQ(ranks[i], static_cast<int>(i) + 1);
}

TEST_F(ExplainTest, SaysWhatHappened) {
  // Budget 10, blocks of 32: at step 0 tokens 0 and 1 are sinks, 24 to 31 the most recent.
  const Replay result = run("sink(2)", 10);
  const HeadReplay& head = *result.find(0, 1);
  const auto at = [&](int token) {
    const TokenExplanation explanation = explain(result, head, token);
    return reason_text(explanation, explanation.steps.front());
  };
  EXPECT_THAT(at(0), HasSubstr("protected as one of the first tokens"));
  EXPECT_EQ(at(23), "evicted: score 23, rank 9 of 32, threshold 24, margin −1");
  EXPECT_EQ(at(24), "kept by its score: score 24, rank 8 of 32, threshold 24, margin 0");
  const Replay merging = run("random+kvmerger(auto,recent=0,heavy=0)", 10);
  const HeadReplay& merged = *merging.find(0, 1);
  const Merge& set = merged.steps[0].merges.at(0);
  const int member = set.from[0] == set.into ? set.from[1] : set.from[0];
  const TokenExplanation explanation = explain(merging, merged, member);
  EXPECT_THAT(reason_text(explanation, explanation.steps.front()),
              HasSubstr("set into " + std::to_string(set.into)));
  const Replay giving = run("sink(2)+cam(1)", 10);
  const HeadReplay& given = *giving.find(0, 1);
  const Merge gift = giving.merges_at(given, 0).at(0);
  const auto says = [&](int token) {
    const TokenExplanation why = explain(giving, given, token);
    return reason_text(why, why.steps.front());
  };
  // m = 1: everything goes to the first kept after it, 24.
  EXPECT_THAT(says(gift.from[0]), HasSubstr("; its value is given to 24 ("));
  EXPECT_THAT(says(24), HasSubstr("; it receives the values of " + std::to_string(gift.from[0])));
}

TEST_F(ExplainTest, RefusesWhatItCannotAnswer) {
  const Replay result = run("keydiff", 20);
  EXPECT_THROW(explain(result, *result.find(0, 1), -1), UsageError);
  EXPECT_THROW(explain(result, *result.find(0, 1), trace_->length()), UsageError);
  EXPECT_THROW(explain(result, *result.find(0, 0), 3), std::invalid_argument);
}

}  // namespace
}  // namespace kvloupe
