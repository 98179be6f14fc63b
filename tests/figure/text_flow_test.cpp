// The text of a trace in lines: ends of lines are the text's own, and no token runs off the page.

#include "app/plot/text_flow.h"

#include <gmock/gmock.h>

#include <map>
#include <string>
#include <vector>

#include "app/plot/printable.h"

namespace kvloupe::figure {
namespace {

using testing::ElementsAre;
using testing::EndsWith;

const TextMetrics fonts;

/// The lines of a text as drawn on a page of this width.
std::vector<std::string> lines_of(const std::vector<std::string>& texts, double width) {
  TokenTable table;
  table.ids.assign(texts.size(), 1);
  table.text = texts;
  Style style;
  style.fonts = &fonts;
  Scene scene = make_scene(style, width, 200.0);
  add_token_text(scene, style, token_text(table, texts.size()), 0,
                 static_cast<int>(texts.size()) - 1, 0.0, [](std::size_t) { return TokenLook{}; });
  std::map<double, std::string> lines;
  for (const Item& item : scene.items) {
    const Text* text = std::get_if<Text>(&item);
    if (text == nullptr) continue;
    lines[text->anchor.y] += text->text;
    EXPECT_LE(text->bounds().right(), width + 0.3) << text->text;
  }
  std::vector<std::string> result;
  for (const auto& [y, line] : lines) result.push_back(line);
  return result;
}

TEST(TextFlow, LinesEndWhereTheTextsDo) {
  // A line feed within a token ends its line; a backslash and an n do not.
  EXPECT_THAT(lines_of({"f(){\n", "puts(", "\"a", "\\n", "b\");", "\n", "}"}, 300),
              ElementsAre("f(){↵", "puts(\"a\\nb\");↵", "}"));
  EXPECT_THAT(lines_of({"a\n\n", "b"}, 300), ElementsAre("a↵↵", "b"));
}

TEST(TextFlow, ATokenWiderThanThePageEndsInAnEllipsis) {
  const std::string rule(64, '-');
  const std::vector<std::string> lines = lines_of({"a", rule, "b"}, 120);
  ASSERT_EQ(lines.size(), 3U);
  EXPECT_THAT(lines[1], EndsWith("…"));
  EXPECT_GT(lines[1].size(), 10U);
  EXPECT_THAT(lines_of({"a", rule, "b"}, 1000), ElementsAre("a" + rule + "b"));
}

TEST(TextFlow, WhatCannotBeSeenHasASign) {
  EXPECT_EQ(printable("\n"), "↵");
  EXPECT_EQ(printable("\\n"), "\\n");
  EXPECT_EQ(printable("a\tb\x1B"), "a→b\\x1b");
  EXPECT_EQ(printable(""), "∅");
}

}  // namespace
}  // namespace kvloupe::figure
