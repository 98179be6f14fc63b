// Texts as people read them: bytes of tokens, lines of errors, durations.

#include "analysis/base/text/text.h"
#include "analysis/base/text/utf8.h"
#include "tests/support/test.h"

namespace kvloupe::test {
namespace {

// Every byte of a token can be told from its spelling.

TEST(ByteSpelling, TellsALineFeedFromABackslashAndAnN) {
  EXPECT_EQ(spell_bytes("a\nb"), "a\\nb");
  EXPECT_EQ(spell_bytes("a\\nb"), "a\\\\nb");
  EXPECT_EQ(spell_bytes("\t\r\x1B\x7F"), "\\t\\r\\x1B\\x7F");
  EXPECT_EQ(spell_bytes("é☃"), "é☃");
  EXPECT_EQ(spell_bytes("\xE2\x98"), "\\xE2\\x98") << "half a character";
  EXPECT_EQ(spell_bytes("\\xE2"), "\\\\xE2") << "four characters that look like a byte";
  EXPECT_EQ(spell_bytes(std::string("\0", 1)), "\\x00");
  EXPECT_EQ(spelled_bytes("\\q\\"), "\\q\\") << "not of spell_bytes(): as it is";
  EXPECT_EQ(spelled_bytes("\\xG1\\x4"), "\\xG1\\x4");
}

TEST(ByteSpelling, GivesAnyBytesBack) {
  std::mt19937 random(7);
  const std::string likely = "\\nxtr0aAfF\n\t\r";
  for (int round = 0; round < 5000; ++round) {
    std::string bytes;
    for (unsigned i = 0; i < random() % 12; ++i) {
      bytes += random() % 2 == 0 ? likely[random() % likely.size()] : static_cast<char>(random());
    }
    const std::string text = spell_bytes(bytes);
    EXPECT_EQ(spelled_bytes(text), bytes) << text;
    EXPECT_EQ(escape_invalid_utf8(text), text) << "it is UTF-8";
    EXPECT_EQ(text.find('\n'), std::string::npos) << "on one line";
  }
}

TEST(ByteSpelling, ReadableBytesKeepTheTextsOwnSigns) {
  EXPECT_EQ(readable_bytes("a\\n\n\xFF"), "a\\n\n\\xFF");
}

// Texts from outside on their way into an error's one line.

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

TEST(DurationText, IsRoundedUpAsAPersonSaysIt) {
  EXPECT_EQ(duration_text(0.0), "about 1 s");
  EXPECT_EQ(duration_text(3.2), "about 4 s");
  EXPECT_EQ(duration_text(10.0), "about 10 s");
  EXPECT_EQ(duration_text(34.0), "about 40 s");
  EXPECT_EQ(duration_text(90.0), "about 90 s");
  EXPECT_EQ(duration_text(91.0), "about 2 min");
  EXPECT_EQ(duration_text(3540.0), "about 59 min");
  EXPECT_EQ(duration_text(3600.0), "about 1 h");
  EXPECT_EQ(duration_text(4000.0), "about 1 h 7 min");
  for (const double odd :
       {-5.0, std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
    EXPECT_EQ(duration_text(odd), "about 1 s");
  }
}

}  // namespace
}  // namespace kvloupe::test
