// Rules for answers, each with answers that obey and break it.

#include "analysis/study/answer_rules.h"
#include "tests/support/test.h"

namespace kvloupe {
namespace {

struct Judged {
  AnswerRule rule;
  std::vector<std::string> obey, fail;
};

TEST(AnswerRulesTest, EachRuleIsObeyedOrNot) {
  const std::vector<Judged> judged = {
      {{"small_letters"}, {"all small, ß and 7", "été λόγος"}, {"One", "élan É"}},
      {{"no_digit"}, {"seven"}, {"7", "a 0"}},
      {{"word_times", "River", 2},
       {"river and RIVER.", "river-river rivers"},
       {"river", "rivers river"}},
      {{"without_word", "very"}, {"every day"}, {"It is Very good", "very"}},
      {{"bullets", "", 2}, {"- a\n- b", "As:\n  - a\n-\nend"}, {"- a", "* a\n* b", "-a\n-b"}},
      {{"first_word", "well"}, {" Well, then", "\n\"WELL\""}, {"wellness", "so well"}},
      {{"last_phrase", "that is all."},
       {"So. That is all.\n"},
       {"that is all", "that is all. Yes"}},
      {{"no_comma"}, {"a; b"}, {"a, b"}},
      {{"most_words", "", 3}, {"one two-three"}, {"one two three four"}},
      {{"paragraphs", "", 2}, {"a\nb\n\n \nc\n", "\n\na\n\nb"}, {"a\nb", "a\n\nb\n\nc"}},
  };
  ASSERT_EQ(judged.size(), answer_rule_kinds().size());
  for (const Judged& one : judged) {
    for (const std::string& answer : one.obey)
      EXPECT_EQ(rules_followed(answer, {&one.rule, 1}), 1.0) << one.rule.rule << ": " << answer;
    for (const std::string& answer : one.fail)
      EXPECT_EQ(rules_followed(answer, {&one.rule, 1}), 0.0) << one.rule.rule << ": " << answer;
    for (const char* nothing : {"", " \n", "..."})
      EXPECT_EQ(rules_followed(nothing, {&one.rule, 1}), 0.0) << one.rule.rule;
  }
  const std::vector<AnswerRule> rules = {{"no_comma"}, {"small_letters"}, {"word_times", "sea", 1}};
  EXPECT_DOUBLE_EQ(rules_followed("the sea, the sky", rules), 2.0 / 3);
  EXPECT_EQ(rules_followed("anything", {}), 0.0);
}

TEST(AnswerRulesTest, InstructionsNameTextAndCount) {
  EXPECT_EQ(instruction_of({"word_times", "river", 3}), "Use the word \"river\" exactly 3 times.");
  EXPECT_EQ(instruction_of({"no_comma"}), "Use no commas.");
  const auto failure = [](const AnswerRule& rule) {
    return test::error_of<WorkError>([&] { rules_followed("a", {&rule, 1}); });
  };
  EXPECT_THAT(failure({"rhyme"}), HasSubstr("\"rhyme\" is not a rule of docs/tasks.md"));
  EXPECT_THAT(failure({"word_times", " ", 3}), HasSubstr("needs a \"text\""));
  EXPECT_THAT(failure({"bullets", "", 0}), HasSubstr("needs a \"count\""));
}

}  // namespace
}  // namespace kvloupe
