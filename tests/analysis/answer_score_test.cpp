// Scores of answers, against cases worked by hand.
#include "analysis/study/answer_score.h"
#include "tests/support/test.h"

namespace kvloupe {
namespace {

TEST(AnswerScore, AnAnswerIsFoundAnywhereAndInAnyCase) {
  const std::vector<std::string> answers = {"The Rose", "42"};
  EXPECT_TRUE(has_answer("it is THE rose.", answers));
  EXPECT_TRUE(has_answer(" 1421", answers));  // as RULER does: a part of a word counts
  EXPECT_FALSE(has_answer("a rose", answers));
  // Letters of every alphabet; Python's str.lower() gives the same.
  for (const auto& [said, answer] : {std::pair{"ÉLAN", "élan"},
                                     {"Ünal", "ünal"},
                                     {"МОСКВА", "москва"},
                                     {"ΟΔΟΣ", "οδος"},
                                     {"οδοσ", "ΟΔΟΣ"},
                                     {"İZMİR", "i̇zmi̇r"}}) {
    EXPECT_TRUE(has_answer(said, std::vector<std::string>{answer})) << said;
    EXPECT_DOUBLE_EQ(answer_f1(said, std::vector<std::string>{answer}), 1.0) << said;
  }
  EXPECT_FALSE(has_answer("elan", std::vector<std::string>{"élan"}));
  EXPECT_TRUE(has_answer("\xC9 ROSE \xFF", std::vector<std::string>{"rose \xFF"}));  // not UTF-8
  EXPECT_FALSE(has_answer("", answers));
  EXPECT_FALSE(has_answer("anything", std::vector<std::string>{""}));
  EXPECT_FALSE(has_answer("anything", std::vector<std::string>{}));
}

TEST(AnswerScore, TheShareOfTheAnswersCountsEachOnce) {
  const std::vector<std::string> answers = {"17", "Oak", "", "23"};
  EXPECT_DOUBLE_EQ(found_share("17, 17 and OAK", answers), 2.0 / 3);
  EXPECT_DOUBLE_EQ(found_share("oak 2317", answers), 1.0);
  EXPECT_DOUBLE_EQ(found_share("nothing", answers), 0.0);
  EXPECT_DOUBLE_EQ(found_share("anything", std::vector<std::string>{""}), 0.0);
}

TEST(AnswerScore, F1CountsCommonWords) {
  const auto f1 = [](const std::string& text, const std::vector<std::string>& answers) {
    return answer_f1(text, answers);
  };
  EXPECT_DOUBLE_EQ(f1("The red, red rose!", {"red rose"}), 0.8);         // 2 of 3 and 2 of 2
  EXPECT_DOUBLE_EQ(f1("a Red rose", {"an red-rose", "rose"}), 2.0 / 3);  // "redrose" is a word
  EXPECT_DOUBLE_EQ(f1("blue", {"red"}), 0.0);
  EXPECT_DOUBLE_EQ(f1("", {"red"}), 0.0);
  EXPECT_DOUBLE_EQ(f1("the", {"a"}), 0.0);  // articles are not words
  EXPECT_DOUBLE_EQ(f1("red\nred\tred", {"red red"}), 0.8);
}

}  // namespace
}  // namespace kvloupe
