// Loops in what a model wrote, and the value range of what was evicted.

#include "analysis/trace/loops.h"
#include "analysis/replay/measure/measure_catalog.h"
#include "analysis/trace/given_tokens.h"
#include "tests/support/model_attribute.h"
#include "tests/support/test.h"

namespace kvloupe {
namespace {

TEST(Loops, AreSpansThatFollowThemselvesThreeTimes) {
  std::vector<std::int32_t> ids = {7, 8, 9, 10};                    // the prompt
  for (int i = 0; i < 5; ++i) ids.insert(ids.end(), {1, 2, 3, 4});  // 20 tokens
  ids.insert(ids.end(), {1, 2, 50, 60});  // a cut occurrence, then something else
  const Loops loops = find_loops(ids, 4);
  ASSERT_EQ(loops.spans.size(), 1U);
  EXPECT_EQ(loops.spans[0], (Loop{4, 4, 22}));
  EXPECT_EQ(loops.spans[0].repeats(), 5);
  EXPECT_EQ(loops.tokens, 22);
  EXPECT_DOUBLE_EQ(loops.share(), 22.0 / 24.0);
}

TEST(Loops, ThePromptDoesNotCount) {
  const std::vector<std::int32_t> ids(40, 5);
  EXPECT_EQ(find_loops(ids, 0).spans, (std::vector<Loop>{{0, 1, 40}}));
  EXPECT_EQ(find_loops(ids, 24).spans, (std::vector<Loop>{{24, 1, 16}}));
  EXPECT_TRUE(find_loops(ids, 25).spans.empty()) << "15 tokens";
  EXPECT_EQ(find_loops(ids, 40).share(), 0.0);
}

TEST(Loops, TwoOccurrencesAreNoLoop) {
  std::vector<std::int32_t> ids;
  for (const auto& [i, token] : test::cells(2, 30)) ids.push_back(token);
  EXPECT_TRUE(find_loops(ids, 0).spans.empty());
  for (int token = 0; token < 30; ++token) ids.push_back(token);
  EXPECT_EQ(find_loops(ids, 0).spans, (std::vector<Loop>{{0, 30, 90}}));
}

/// The tokens that are part of a loop, by trying every place, length and end.
std::vector<bool> tokens_in_loops(const std::vector<std::int32_t>& ids, std::size_t first) {
  std::vector<bool> in(ids.size(), false);
  for (std::size_t begin = first; begin < ids.size(); ++begin) {
    for (std::size_t length = 1; length <= 1024 && begin + 3 * length <= ids.size(); ++length) {
      std::size_t end = begin + length;
      while (end < ids.size() && ids[end] == ids[end - length]) ++end;
      if (end - begin < std::max<std::size_t>(16, 3 * length)) continue;
      for (std::size_t at = begin; at < end; ++at) in[at] = true;
    }
  }
  return in;
}

TEST(Loops, CoverWhatASearchOfAllSpansFinds) {
  std::mt19937 random(5);
  int with_loops = 0;
  for (int trial = 0; trial < 300; ++trial) {
    std::vector<std::int32_t> ids;
    while (ids.size() < 120) {  // pieces that repeat by chance, some of them many times
      const std::size_t length = 1 + random() % 9, times = random() % 7;
      std::vector<std::int32_t> piece;
      for (std::size_t i = 0; i < length; ++i) piece.push_back(static_cast<int>(random() % 4));
      for (std::size_t i = 0; i < times; ++i) ids.insert(ids.end(), piece.begin(), piece.end());
    }
    const int first = static_cast<int>(random() % 20);
    const Loops loops = find_loops(ids, first);
    const std::vector<bool> wanted = tokens_in_loops(ids, static_cast<std::size_t>(first));
    std::vector<bool> found(ids.size(), false);
    for (const Loop& loop : loops.spans) {
      EXPECT_GE(loop.repeats(), 3);
      for (int at = loop.first; at < loop.first + loop.tokens; ++at) {
        found[at] = true;
        if (at >= loop.first + loop.length) {
          EXPECT_EQ(ids[at], ids[at - loop.length]);
        }
      }
    }
    ASSERT_EQ(found, wanted) << trial;
    ASSERT_EQ(loops.tokens, std::count(wanted.begin(), wanted.end(), true));
    with_loops += loops.spans.empty() ? 0 : 1;
  }
  EXPECT_GT(with_loops, 50);
}

// The measures, from the steps at which tokens left and the trace's values alone.
TEST(LostValues, CompareWhatLeavesWithWhatWasThere) {
  test::MadeTrace made_trace({.layers = 2, .prompt_length = 40, .generated = 12});
  const Trace& trace = made_trace.trace();
  for (const char* spec : {"keydiff", "valuerange(0)", "h2o+every(4)"}) {
    ReplayRequest request{.policy = parse_policy(spec),
                          .budget = 10,
                          .block = 16,
                          .measures = {"lost_value_range", "largest_lost_value_range"}};
    const Replay made = replay(trace, request, test::unwatched);
    int steps = 0;
    for (const HeadReplay& head : made.heads) {
      const Matrix values = trace.value(head.layer, head.head);
      for (int step = 0; step < static_cast<int>(made.blocks.size()); ++step) {
        double all = 0.0, lost = 0.0, most = 0.0, most_lost = 0.0;
        int n = 0, gone = 0;
        for (int token = 0; token < made.blocks[step].end; ++token) {
          const std::int32_t at = head.evicted_at[token];
          if (at >= 0 && at < step) continue;
          double least = 1e300, largest = -1e300;
          for (Eigen::Index c = 0; c < values.cols(); ++c) {
            least = std::min(least, static_cast<double>(values(token, c)));
            largest = std::max(largest, static_cast<double>(values(token, c)));
          }
          ++n;
          all += largest - least;
          most = std::max(most, largest - least);
          if (at != step) continue;
          ++gone;
          lost += largest - least;
          most_lost = std::max(most_lost, largest - least);
        }
        const StepRecord& record = head.steps[step];
        const auto mean = measure_at(require_measure("lost_value_range"), record);
        const auto largest = measure_at(require_measure("largest_lost_value_range"), record);
        if (gone == 0) {
          EXPECT_TRUE(std::isnan(mean) && std::isnan(largest));
          continue;
        }
        ++steps;
        EXPECT_NEAR(mean, (lost / gone) / (all / n), 1e-5);
        EXPECT_NEAR(largest, most_lost / most, 1e-6);
        if (std::string(spec) == "valuerange(0)") {
          EXPECT_LE(mean, 1.0) << "the smallest leave";
        }
      }
    }
    EXPECT_GT(steps, 10) << spec;
  }
}

// Which tokens after a prompt the model was given, and what it would have written.

struct Given : testing::Test {
  /// A trace of 96 tokens of prompt and 8 after it, of which some were given.
  GivenTokens with(std::optional<int> given, const std::vector<std::int32_t>& own = {},
                   bool predictions = true) {
    test::write_synthetic_trace(path_,
                                {.layers = 1, .predictions = predictions, .vocabulary = true});
    test::write_given(path_, given, own);
    trace_.emplace(path_);
    return given_tokens(*trace_);
  }
  /// Those in whose place another one was most probable, from all predictions.
  std::vector<int> others(int end) const {
    const auto predicted = *trace_->predictions();
    std::vector<int> tokens;
    for (int token = 96; token < end; ++token) {
      const auto best = static_cast<std::size_t>((token - 1) * predicted.k);
      if (predicted.token_ids[best] != trace_->tokens().ids[token]) tokens.push_back(token);
    }
    return tokens;
  }
  static std::vector<int> tokens_of(const GivenTokens& given) {
    std::vector<int> tokens;
    for (const GivenTokens::Other& one : given.others) tokens.push_back(one.token);
    return tokens;
  }

  test::TemporaryFolder folder_;
  std::filesystem::path path_ = folder_ / "t.h5";
  std::optional<Trace> trace_;
};

TEST_F(Given, TokensAreToldFromThoseThatTheModelChose) {
  const GivenTokens given = with(5);
  EXPECT_EQ(given.range, (TokenRange{96, 101}));
  EXPECT_TRUE(given.compared);
  ASSERT_EQ(tokens_of(given), others(101));
  ASSERT_FALSE(given.others.empty());
  const GivenTokens::Other& first = given.others.front();
  const std::string piece = (*trace_->vocabulary())[first.id];
  EXPECT_EQ(first.text, piece.empty() ? "#" + std::to_string(first.id) : piece);
  EXPECT_EQ(given.other(first.token), &first);
  EXPECT_EQ(given.other(101), nullptr);
  EXPECT_THAT(given.own_text, testing::EndsWith(first.text + " …")) << "as far as it is known";
  EXPECT_EQ(part_name(*trace_, given, 95), "context");
  EXPECT_EQ(part_name(*trace_, given, 100), "answer · given");
  EXPECT_EQ(part_name(*trace_, given, 101), "answer");
  EXPECT_THAT(part_text(*trace_, given, first.token),
              StartsWith("answer · given · the model would have chosen “"));
  EXPECT_THAT(own_answer_note(given), HasSubstr("The answer in the text was given to it"));
}

TEST_F(Given, AnAnswerOfItsOwnIsTheModels) {
  const GivenTokens given = with(8, {4, 5});
  EXPECT_EQ(given.own_ids, (std::vector<std::int32_t>{4, 5}));
  EXPECT_EQ(given.own_text, (*trace_->vocabulary())[4] + (*trace_->vocabulary())[5]);
}

TEST_F(Given, NothingIsSaidWhereTheModelChose) {
  const GivenTokens chosen = with(0);
  EXPECT_TRUE(chosen.range.empty() && chosen.others.empty() && chosen.own_text.empty());
  EXPECT_EQ(part_name(*trace_, chosen, 100), "answer");
  EXPECT_EQ(own_answer_note(chosen), "");
  trace_.reset();
  test::mark_segment(path_, "answer", 10, 20);
  EXPECT_EQ(part_name(Trace(path_), chosen, 15), "answer · given")
      << "a prompt's is not the model's";
}

TEST_F(Given, AnOlderTraceIsJudgedByItsTokens) {
  const GivenTokens old = with(std::nullopt);
  EXPECT_EQ(old.range, (TokenRange{96, 104})) << "kvloupe chooses the most probable token";
  EXPECT_EQ(tokens_of(old), others(104));
  const GivenTokens unknown = with(std::nullopt, {}, false);
  EXPECT_TRUE(unknown.range.empty()) << "nothing tells";
}

TEST_F(Given, WithoutPredictionsTheModelsChoiceIsNotKnown) {
  const GivenTokens given = with(8, {}, false);
  EXPECT_EQ(given.range, (TokenRange{96, 104}));
  EXPECT_FALSE(given.compared);
  EXPECT_EQ(given.own_text, "");
  EXPECT_THAT(own_answer_note(given), HasSubstr("does not say"));
}

TEST_F(Given, WrongNumbersAreRefused) {
  EXPECT_THROW(with(9), FileError);
  EXPECT_THROW(with(-1), FileError);
  EXPECT_THROW(with(8, {50}), FileError) << "outside the vocabulary";
}

}  // namespace
}  // namespace kvloupe
