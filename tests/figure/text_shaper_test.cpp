// Text in any script: what joins is joined, what stacks is stacked, what runs from right to left
// does, and nothing that a trace may hold brings it down.

#include "app/scene/text_shaper.h"
#include "app/document/figure_file.h"
#include "app/plot/frame.h"
#include "app/plot/printable.h"
#include "app/plot/text_flow.h"
#include "app/scene/cairo_backend.h"
#include "app/scene/font_config.h"
#include "app/scene/svg_backend.h"
#include "tests/figure/made_figures.h"
#include "tests/figure/text_dump.h"
#include "tests/figure/well_formed.h"
#include "tests/support/model_attribute.h"
#include "tests/support/test.h"

namespace kvloupe::figure {
namespace {

using testing::EndsWith;

const std::string kArabic = "بيت";         // house: three letters, all joined
const std::string kDevanagari = "क्षत्रिय";  // four syllables of eight characters
const std::string kThai = "ที่นี่";            // two letters with two marks each
const std::string kAccent = "e\u0301";     // é as a letter and a mark
const std::string kHebrew = "שלום";
const std::vector<std::string> kWords{kArabic, kDevanagari, kThai,        kAccent,
                                      kHebrew, "漢字",      "👩‍🔬"};

struct TextShaperTest : ::testing::Test {
  std::vector<std::uint32_t> indices(const std::string& text, Font font = Font::regular) const {
    std::vector<std::uint32_t> out;
    for (const Glyph& glyph : fonts.layout(text, font)) out.push_back(glyph.index);
    return out;
  }
  double width(const std::string& text, Font font = Font::regular) const {
    return fonts.width(text, font, 10.0);
  }
  /// The bytes at which clusters may be cut.
  std::set<std::size_t> clusters(const std::string& text) const {
    std::set<std::size_t> starts{text.size()};
    for (const Glyph& glyph : fonts.layout(text, Font::mono)) starts.insert(glyph.byte);
    return starts;
  }

  TextMetrics fonts;
  Style style = make_style(fonts);
};

TEST_F(TextShaperTest, KnowsWhichTextNeedsIt) {
  for (const char* text :
       {"", "plain", "Größe", "ℒ θ → ↵ −0.5", "Привет", "漢字", "한글", "\xff\xfe"})
    EXPECT_FALSE(needs_shaping(text)) << text;
  for (const std::string& text : kWords) EXPECT_EQ(needs_shaping(text), text != "漢字") << text;
  EXPECT_TRUE(needs_shaping("word \u202Ecba")) << "a direction mark";
}

TEST_F(TextShaperTest, ArabicLettersJoin) {
  const auto joined = indices(kArabic);
  ASSERT_EQ(joined.size(), 3U);
  const std::vector<std::string> letters{"ت", "ي", "ب"};  // from left to right
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_NE(joined[i], 0U);
    EXPECT_NE(joined[i], indices(letters[i]).at(0)) << "as if it stood alone: " << letters[i];
  }
  EXPECT_THAT(indices("\u0644\u0627"), Not(IsEmpty()));
  EXPECT_LT(width("\u0644\u0627"), width("\u0644") + width("\u0627")) << "lam and alef are one";
}

TEST_F(TextShaperTest, RightToLeftIsDrawnFromTheRight) {
  const auto glyphs = fonts.layout("a " + kHebrew + " b", Font::regular);
  ASSERT_EQ(glyphs.size(), 8U);
  EXPECT_EQ(glyphs.front().byte, 0U);
  EXPECT_EQ(glyphs.back().byte, 2 + kHebrew.size() + 1);
  for (std::size_t i = 2; i < 5; ++i) {
    EXPECT_GT(glyphs[i].byte, glyphs[i + 1].byte);
    EXPECT_LT(glyphs[i].x, glyphs[i + 1].x);
    EXPECT_TRUE(glyphs[i].right_to_left);
  }
  EXPECT_FALSE(glyphs[0].right_to_left);
  // A number within keeps its own direction.
  const auto number = fonts.layout("שנת 1948 היא", Font::regular);
  std::vector<std::size_t> digits;
  for (const Glyph& glyph : number) {
    if (glyph.byte >= 7 && glyph.byte < 11) digits.push_back(glyph.byte);
  }
  EXPECT_THAT(digits, ElementsAre(7U, 8U, 9U, 10U));
}

TEST_F(TextShaperTest, MarksStandOnTheirLetters) {
  for (const Font font : {Font::regular, Font::mono, Font::bold}) {
    EXPECT_NEAR(width(kAccent, font), width("e", font), 1e-9);
    EXPECT_NEAR(width("q\u0301\u0323", font), width("q", font), 1e-9) << "no composed character";
  }
  EXPECT_EQ(clusters(kAccent).size(), 2U) << "one cluster and the end";
  EXPECT_NEAR(width(kThai), width("ทน"), 1e-9);
}

TEST_F(TextShaperTest, DevanagariIsReorderedAndStacked) {
  // The vowel sign i is written after its consonants and stands before them.
  const auto glyphs = fonts.layout("त्रि", Font::regular);
  ASSERT_FALSE(glyphs.empty());
  for (const Glyph& glyph : glyphs) EXPECT_NE(glyph.index, 0U) << "install fonts-noto-core";
  EXPECT_EQ(glyphs.front().index, indices("ि").at(0) == 0 ? 1U : glyphs.front().index);
  EXPECT_EQ(clusters("त्रि").size(), 2U) << "one syllable";
  const auto word = indices(kDevanagari);
  EXPECT_LT(word.size(), 8U) << "eight characters, some of them one conjunct";
  // The conjunct is not a row of its letters.
  EXPECT_LT(width("क्ष"), width("क") + width("ष"));
}

TEST_F(TextShaperTest, PlainTextIsAsItWas) {
  // No kerning and no ligatures, shaped or not: the part beside an Arabic word is as wide as alone.
  for (const Font font : {Font::regular, Font::mono}) {
    for (const std::string& plain : {std::string("AVA fi -> "), std::string("Tokens ")}) {
      EXPECT_NEAR(width(plain + kArabic, font), width(plain, font) + width(kArabic, font), 1e-9);
      EXPECT_EQ(fonts.layout(plain + kArabic, font).size(), plain.size() + 3);
    }
  }
}

TEST_F(TextShaperTest, AnEllipsisNeverCutsACluster) {
  for (const std::string& word : kWords) {
    const std::string text = word + " " + word + " " + word;
    const std::set<std::size_t> allowed = clusters(text);
    for (double room = 1.0; room < width(text, Font::mono) + 2; room += 1.3) {
      const std::string cut = fonts.fit(text, Font::mono, 10.0, room);
      EXPECT_LE(width(cut, Font::mono), room + 1e-9) << text;
      const std::size_t dots = cut.find("…");
      if (dots == std::string::npos) {
        EXPECT_TRUE(cut == text || cut.empty());
      } else {
        EXPECT_EQ(cut.substr(0, dots), text.substr(0, dots));
        EXPECT_TRUE(allowed.contains(dots)) << text << " at byte " << dots;
      }
    }
  }
}

TEST_F(TextShaperTest, HostileTextNeitherCrashesNorHangs) {
  std::string marks, embeddings, mixed, joiners;
  for (int i = 0; i < 60'000; ++i) marks += "\u0301";
  for (int i = 0; i < 20'000; ++i) embeddings += i % 2 == 0 ? "\u202E" : "\u2067ب";
  for (int i = 0; i < 20'000; ++i) mixed += i % 3 == 0 ? "ب" : i % 3 == 1 ? "a\u0301" : "क्";
  for (int i = 0; i < 20'000; ++i) joiners += "👩\u200D";
  std::string nul = kArabic;
  nul += '\0';
  nul += kAccent;
  const std::vector<std::string> hostile{marks,
                                         embeddings,
                                         mixed,
                                         joiners,
                                         nul,
                                         "\u0301",
                                         "\u202E",
                                         "\u2066\u2066",
                                         "\u200D\u200D",
                                         "\xff" + kArabic + "\xfe\x80",
                                         kArabic.substr(0, 3),
                                         "ب\xd8",
                                         "\xF0\x9F\x91ب",
                                         "ب\nب\r\u2029ب",
                                         "\U000E0041\U000E007F",
                                         "\uFEFF",
                                         "\u0600"};
  const auto start = std::chrono::steady_clock::now();
  for (const std::string& text : hostile) {
    const auto glyphs = fonts.layout(text, Font::mono);
    EXPECT_TRUE(std::isfinite(width(text, Font::mono)));
    EXPECT_GE(width(text, Font::mono), 0.0);
    for (const Glyph& glyph : glyphs) ASSERT_LT(glyph.byte, text.size());
    const std::string cut = fonts.fit(text, Font::mono, 10.0, 50.0);
    EXPECT_LE(width(cut, Font::mono), 50.0 + 1e-9);
    if (text.size() > 1000) continue;
    Scene scene = make_scene(style, 300, 40);
    scene.add(make_text(style, text, {5, 20}, 10, Font::mono));
    EXPECT_GT(write_pdf(scene, fonts).size(), 100U);
    EXPECT_GT(write_png(scene, fonts, 1.0).size(), 100U);
    const std::string svg = write_svg(scene);
    EXPECT_THAT(test::why_not_well_formed(svg.substr(svg.find("<svg"))), IsEmpty());
  }
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  EXPECT_LT(took.count(), 60.0);  // less than a second on a machine of its own
}

TEST_F(TextShaperTest, SvgLeavesShapingToTheBrowserAndHoldsTheWidth) {
  Scene scene = make_scene(style, 300, 40);
  scene.add(make_text(style, "plain", {5, 20}, 10));
  EXPECT_THAT(write_svg(scene), Not(HasSubstr("textLength")));
  scene.add(make_text(style, kArabic, {105, 20}, 10, Font::mono));
  EXPECT_THAT(write_svg(scene), HasSubstr("lengthAdjust=\"spacingAndGlyphs\""));
  EXPECT_THAT(write_svg(scene), HasSubstr(">" + kArabic + "</text>"));
}

TEST_F(TextShaperTest, FiguresOfSuchATraceAreSoundAndTheirPdfCanBeSearched) {
  const test::TemporaryFolder folder;
  const auto path = folder / "scripts.h5";
  test::write_synthetic_trace(path);
  std::vector<std::string> words;
  for (const std::string& word : kWords) words.push_back(" " + word);
  test::write_token_texts(path, words);
  const request::FigureMaker maker(std::make_shared<const Trace>(path));
  request::FigureSettings settings{.policy = parse_policy("h2o+recent(20%)+sinks(2)")};
  const FigureInfo& info = find_figure("tokens");
  const MadeFigure made = maker.make(info, settings, test::unwatched);
  for (const char* size : {"", "85x60mm", "40x40mm"}) {
    FileOptions options;
    if (*size != '\0') options.size = parse_page_size(size);
    EXPECT_THAT(scene_problems(page_of(info, made, options, fonts)), IsEmpty());
  }
  EXPECT_THAT(file_of(info, made, FileFormat::svg, {}, fonts),
              HasSubstr(">" + kArabic + "</text>"));
  const auto pdf = folder / "tokens.pdf";
  const auto out = folder / "tokens.txt";
  std::ofstream(pdf, std::ios::binary) << file_of(info, made, FileFormat::pdf, {}, fonts);
  ASSERT_EQ(std::system(("pdftotext " + pdf.string() + " " + out.string()).c_str()), 0);
  const std::string text = test::file_text(out);
  for (const std::string& word : {kArabic, kDevanagari, kHebrew, std::string("漢字")})
    EXPECT_THAT(text, HasSubstr(word)) << "not to be found in the PDF";
}

TEST_F(TextShaperTest, WhatWasShapedOnceIsQuick) {
  const auto seconds = [&](int times) {
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < times; ++i) fonts.layout(kDevanagari, Font::mono);
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
  seconds(1);
  EXPECT_LT(seconds(10'000), 1.0);  // 20 ms on a machine of its own
}

// Fonts that come with the program, as in the Python wheel.

fs::path font_of_letters() {
  const TextMetrics metrics;
  return metrics.face(metrics.layout("a", Font::regular).front().face).path;
}

TEST(FontConfig, AFamilyIsTakenFromTheFolderOfTheProgram) {
  const test::TemporaryFolder folder;
  const fs::path usual = font_of_letters();
  const fs::path own = folder.path() / usual.filename();
  fs::copy_file(usual, own);
  use_font_folder(folder.path());
  EXPECT_EQ(font_of_letters(), own);
  use_font_folder("/nowhere/fonts");
  EXPECT_EQ(font_of_letters(), own);
  use_font_folder({});  // it counts for the whole process, whose next test has the usual fonts
  EXPECT_EQ(font_of_letters(), usual);
}

// The text of a trace in lines: ends of lines are the text's own, and no token runs off the page.

const TextMetrics fonts;

/// The lines of a text as drawn on a page of this width.
std::vector<std::string> lines_of(const std::vector<std::string>& texts, double width) {
  TokenTable table;
  table.ids.assign(texts.size(), 1);
  table.text = texts;
  Style style{.fonts = &fonts};
  Scene scene = make_scene(style, width, 200.0);
  add_token_text(scene, style, token_text(table, texts.size()), 0,
                 static_cast<int>(texts.size()) - 1, 0.0, [](std::size_t) { return TokenLook{}; });
  std::map<double, std::string> lines;
  for (const Text& text : test::items_of<Text>(scene)) {
    lines[text.anchor.y] += text.text;
    EXPECT_LE(text.bounds().right(), width + 0.3) << text.text;
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
