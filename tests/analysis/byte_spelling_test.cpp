// Every byte of a token can be told from its spelling.

#include "analysis/byte_spelling.h"

#include <gtest/gtest.h>

#include <random>
#include <string>

#include "analysis/utf8.h"

namespace kvloupe {
namespace {

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

}  // namespace
}  // namespace kvloupe
