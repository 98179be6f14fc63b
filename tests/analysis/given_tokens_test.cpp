// Which tokens after a prompt the model was given, and what it would have written.
#include "analysis/trace/given_tokens.h"

#include <gmock/gmock.h>

#include <optional>
#include <string>
#include <vector>

#include "analysis/error.h"
#include "tests/support/model_attribute.h"
#include "tests/support/synthetic_trace.h"
#include "tests/support/temporary_folder.h"

namespace kvloupe {
namespace {

using testing::HasSubstr;

class Given : public testing::Test {
 protected:
  /// A trace of 96 tokens of prompt and 8 after it, of which some were given.
  GivenTokens with(std::optional<int> given, const std::vector<std::int32_t>& own = {},
                   bool predictions = true) {
    test::SyntheticTraceOptions options{
        .layers = 1, .predictions = predictions, .vocabulary = true};
    test::write_synthetic_trace(path_, options);
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
      if (predicted.token_ids[best] != trace_->tokens().ids[static_cast<std::size_t>(token)])
        tokens.push_back(token);
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
  const std::string piece = (*trace_->vocabulary())[static_cast<std::size_t>(first.id)];
  EXPECT_EQ(first.text, piece.empty() ? "#" + std::to_string(first.id) : piece);
  EXPECT_EQ(given.other(first.token), &first);
  EXPECT_EQ(given.other(101), nullptr);
  EXPECT_THAT(given.own_text, testing::EndsWith(first.text + " …")) << "as far as it is known";
  EXPECT_EQ(part_name(*trace_, given, 95), "context");
  EXPECT_EQ(part_name(*trace_, given, 100), "answer · given");
  EXPECT_EQ(part_name(*trace_, given, 101), "answer");
  EXPECT_THAT(part_text(*trace_, given, first.token),
              testing::StartsWith("answer · given · the model would have chosen “"));
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
