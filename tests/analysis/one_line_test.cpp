// Texts from outside on their way into an error's one line.
#include <gtest/gtest.h>

#include "analysis/one_line.h"

namespace kvloupe::test {
namespace {

TEST(OneLine, ShowsPlainTextAsItIs) {
  EXPECT_EQ(in_one_line("plain: größe 漢字"), "plain: größe 漢字");
  EXPECT_EQ(in_one_line(""), "");
  EXPECT_EQ(in_quotes("a\"b"), "\"a\"b\"");
}

TEST(OneLine, HasNoLineEndsAndIsUtf8) {
  EXPECT_EQ(in_one_line(std::string_view("a\nb\r\x1B[2J\x7F\0", 10)), "a?b??[2J??");
  EXPECT_EQ(in_one_line("a\xE6\xBC!\xFF"), "a\\xe6\\xbc!\\xff");
  EXPECT_EQ(in_one_line("a\xC2\x9B"
                        "2J\xC2\xA0"),
            "a?2J\xC2\xA0");  // CSI, as one character
  EXPECT_EQ(in_lines("a\n\tb\r\x1B[2J\x07"), "a\n\tb??[2J?");
}

TEST(OneLine, IsCutBetweenCharacters) {
  EXPECT_EQ(in_one_line("abcdef", 6), "abcdef");
  EXPECT_EQ(in_one_line("abcdef", 5), "abcde...");
  EXPECT_EQ(in_one_line("ab漢字", 7), "ab漢...");
  EXPECT_EQ(in_one_line("ab漢字", 5), "ab漢...");
  EXPECT_EQ(in_quotes("ab漢字", 4), "\"ab...\"");
  EXPECT_EQ(in_one_line(std::string(1000, '\x80'), 8).size(), 5U * 4 + 3);
  EXPECT_LT(in_one_line(std::string(1 << 20, 'x')).size(), 100U);
}

}  // namespace
}  // namespace kvloupe::test
