#include "tests/figure/dump_difference.h"
#include "app/plot/frame.h"
#include "app/plot/marks.h"
#include "tests/figure/text_dump.h"
#include "tests/figure/texts_on_data.h"
#include "tests/support/test.h"

namespace kvloupe::figure {
namespace {

using test::dump_difference;

struct Dump : ::testing::Test {
  /// A curve of 200 points and a map of 40×40 cells, moved and recoloured as asked.
  std::string dump(double lift = 0, double noise = 0, int recoloured = 0, double spike = 0) const {
    Scene scene = make_scene(style, 200, 100);
    Path curve;
    for (int i = 0; i < 200; ++i) {
      const Point p{i * 1.0, 50 + 30 * std::sin(i * 0.1) + lift + (i % 2 == 0 ? noise : -noise) +
                                 (i == 77 ? spike : 0.0)};
      i == 0 ? curve.move(p) : curve.line(p);
    }
    curve.stroke = Stroke{style.colours.ink, 0.5, {}, Cap::butt};
    scene.add(std::move(curve));
    auto pixels = std::make_shared<Pixels>(Pixels{40, 40, std::vector<std::uint8_t>(6400, 255)});
    for (int y = 0; y < 40; ++y) {
      for (int x = 0; x < 40; ++x) {
        const bool changed = x >= 20 && x < 20 + recoloured && y >= 7 && y < 7 + recoloured;
        pixels->rgba[static_cast<std::size_t>(y * 40 + x) * 4] =
            static_cast<std::uint8_t>(changed ? 255 : x * 4);
      }
    }
    scene.add(Image{pixels, {10, 10, 80, 80}, "map", Interpolation::nearest});
    return write_text_dump(scene);
  }

  TextMetrics fonts;
  Style style = make_style(fonts);
};

TEST_F(Dump, NoiseIsNoDifference) {
  EXPECT_THAT(dump_difference(dump(), dump()), IsEmpty());
  EXPECT_THAT(dump_difference(dump(), dump(1e-4, 1e-4)), IsEmpty());
  EXPECT_THAT(dump_difference(dump(0.05), dump(0.0499)), IsEmpty()) << "at a border of rounding";
}

TEST_F(Dump, AMovedCurveIsSeen) {
  EXPECT_THAT(dump_difference(dump(), dump(3.0)), HasSubstr("path"));
  EXPECT_THAT(dump_difference(dump(), dump(0.5)), HasSubstr("path"));
  EXPECT_THAT(dump_difference(dump(), dump(0, 0, 0, 15.0)), HasSubstr("path"))
      << "one point of 200";
}

TEST_F(Dump, ARegionOfAnotherColourIsSeen) {
  EXPECT_THAT(dump_difference(dump(), dump(0, 0, 5)), HasSubstr("cells"));
  EXPECT_THAT(dump_difference(dump(), dump(0, 0, 3)), HasSubstr("cells"));
}

TEST(DumpDifference, OnlyPlacesMayDifferALittle) {
  const auto same = [](const char* a, const char* b) { return dump_difference(a, b).empty(); };
  EXPECT_TRUE(same("path stroke #aabbcc 0.5 10.1,20.0", "path stroke #aabbcc 0.5 10.0,20.1"));
  EXPECT_FALSE(same("path stroke #aabbcc 0.5 10.1,20.0", "path stroke #aabbcc 0.5 10.4,20.0"));
  EXPECT_FALSE(same("path stroke #aabbcc 0.5 10.1,20.0", "path stroke #aabbcd 0.5 10.1,20.0"));
  EXPECT_FALSE(same("path fill #aabbcc 1.0,2.0", "path fill #aabbcc 1.0,2.0 3.0,4.0"));
  EXPECT_FALSE(same("71 points in 1.0,1.0 2.0x2.0", "72 points in 1.0,1.0 2.0x2.0"));
  EXPECT_FALSE(same("text \"0.31\" 1.0,1.0 8.0", "text \"0.32\" 1.0,1.0 8.0"));
  EXPECT_FALSE(same("text \"a \"0.31\" b\" 1.0,1.0", "text \"a \"0.32\" b\" 1.0,1.0"));
  EXPECT_TRUE(same("  cells #808080 #ff0000", "  cells #828080 #ff0000"));
  EXPECT_FALSE(same("  cells #808080 #ff0000", "  cells #908080 #ff0000"));
  EXPECT_TRUE(same("axes 1.0,1.0 9.0x9.0 x value \"A\" 0.7435..0",
                   "axes 1.0,1.0 9.0x9.0 x value \"A\" 0.7436..0"));
  EXPECT_FALSE(same("axes 1.0,1.0 9.0x9.0 x value \"A\" 0.7435..0",
                    "axes 1.0,1.0 9.0x9.0 x value \"A\" 0.7535..0"));
  EXPECT_FALSE(same("axes 1.0,1.0 9.0x9.0 x value \"A\" 0.002..1",
                    "axes 1.0,1.0 9.0x9.0 x value \"A\" 0.003..1"));
  EXPECT_FALSE(same("path\npath", "path"));
}

// The judge of texts over data: what it must find, and what it must let pass.

struct TextsOnDataTest : ::testing::Test {
  TextsOnDataTest() {
    style.colours.paper = {255, 255, 255};
    scene = make_scene(style, 100.0, 100.0);
    axes.plot = {10.0, 10.0, 80.0, 80.0};
    axes.x = {AxisMeaning::head, AxisScale::linear, 0.0, 4.0, "Head"};
    axes.y = {AxisMeaning::layer, AxisScale::linear, 0.0, 4.0, "Layer"};
  }
  void add_text(Point anchor, const std::string& text = "word") {
    scene.add(make_text(style, text, anchor));
  }
  void add_points(std::vector<Point> points) {
    Markers dots{.fill = style.colours.retained, .points = std::move(points)};
    scene.add(std::move(dots));
  }
  void add_stroke(Point from, Point to, Colour colour) {
    scene.add(make_line(from, to, colour, 1.0));
  }
  std::vector<std::string> found() const { return texts_on_data(scene, style); }

  TextMetrics fonts;
  Style style = make_style(fonts);
  Scene scene;
  Axes axes;
};

TEST_F(TextsOnDataTest, APointUnderOrOverATextIsFoundAndOneBesideItIsNot) {
  add_text({30.0, 50.0});
  add_points({{80.0, 80.0}, {29.0, 60.0}});
  EXPECT_THAT(found(), IsEmpty());
  add_points({{34.0, 48.0}});
  EXPECT_THAT(found(), ElementsAre(HasSubstr("\"word\" stands on a point at 34.0,48.0")));
}

TEST_F(TextsOnDataTest, ALineOfAColourIsFoundAndGridAxesAndBandsAreNot) {
  scene.axes.push_back(axes);
  add_text({30.0, 50.0});
  add_stroke({0.0, 47.0}, {90.0, 47.0}, style.colours.grid);
  add_stroke({0.0, 47.0}, {90.0, 47.0}, style.colours.evicted.with_alpha(0.2));
  EXPECT_THAT(found(), IsEmpty());
  add_stroke({0.0, 0.0}, {90.0, 90.0}, style.colours.evicted);  // passes above the text
  EXPECT_THAT(found(), ElementsAre(HasSubstr("a line"))) << "through its end";
}

TEST_F(TextsOnDataTest, TicksInInkOutsideThePlotAreNoData) {
  scene.axes.push_back(axes);
  add_text({2.0, 50.0}, "x");
  add_stroke({0.0, 47.0}, {8.0, 47.0}, style.colours.ink);
  EXPECT_THAT(found(), IsEmpty());
  add_text({40.0, 50.0}, "y");
  add_stroke({20.0, 47.0}, {60.0, 47.0}, style.colours.ink);
  EXPECT_THAT(found(), ElementsAre(HasSubstr("\"y\"")));
}

TEST_F(TextsOnDataTest, AGroundHidesWhatIsBelowItButNotWhatComesAfter) {
  add_stroke({0.0, 47.0}, {90.0, 47.0}, style.colours.evicted);
  add_note(scene, style, "note", {30.0, 50.0});
  EXPECT_THAT(found(), IsEmpty());
  add_stroke({0.0, 48.0}, {90.0, 48.0}, style.colours.retained);
  EXPECT_THAT(found(), ElementsAre(HasSubstr("\"note\" stands on a line")));
}

TEST_F(TextsOnDataTest, AStruckTextIsItsOwn) {
  add_text({30.0, 50.0});
  const Rect box = std::get<Text>(scene.items.back()).bounds();
  add_stroke({box.x, 47.5}, {box.right(), 47.5}, style.colours.evicted);
  EXPECT_THAT(found(), IsEmpty());
}

TEST_F(TextsOnDataTest, ATextKeepsToItsCellAndItsArea) {
  auto pixels = std::make_shared<Pixels>();
  pixels->width = pixels->height = 1;
  pixels->rgba = {1, 2, 3, 255};
  scene.add(Image{pixels, axes.plot, "key", Interpolation::nearest});
  scene.axes.push_back(axes);
  add_text({12.0, 22.0}, "0.5");  // cells are 20 wide
  EXPECT_THAT(found(), IsEmpty());
  add_text({24.0, 42.0}, "0.5");
  EXPECT_THAT(found(), ElementsAre(HasSubstr("a cell of its neighbour")));
  scene.items.pop_back();
  add_text({84.0, 82.0}, "0.5");
  EXPECT_THAT(found(), ElementsAre(HasSubstr("the edge of a map")));
}

TEST_F(TextsOnDataTest, WhatAClipHidesIsNotThere) {
  add_text({30.0, 50.0});
  scene.add(PushClip{{0.0, 0.0, 100.0, 20.0}});
  add_points({{34.0, 48.0}});
  scene.add(PopClip{});
  EXPECT_THAT(found(), IsEmpty());
}

TEST_F(TextsOnDataTest, CutTextsAreThoseWithDots) {
  add_text({10.0, 20.0}, "whole");
  add_text({10.0, 40.0}, "snapkv(pool=max…");
  EXPECT_THAT(cut_texts(scene), ElementsAre("snapkv(pool=max…"));
}

TEST_F(TextsOnDataTest, TextsAreCutAtWords) {
  const std::string name = "snapkv(pool=max,range=candidates)+adakv(mode=mix)";
  const auto width = [&](const std::string& text) {
    return fonts.width(text, Font::regular, style.small);
  };
  EXPECT_EQ(fit_words(style, name, style.small, width(name)), name);
  EXPECT_EQ(fit_words(style, name, style.small, width(name) - 1.0),
            "snapkv(pool=max,range=candidates)+adakv(…");
  EXPECT_EQ(fit_words(style, name, style.small, width("snapkv(pool=max,ran…")),
            "snapkv(pool=max,…");
  EXPECT_THAT(fit_words(style, name, style.small, width("sna…")), HasSubstr("…"));
  EXPECT_LE(width(fit_words(style, name, style.small, width("sna…"))), width("sna…"));
}

TEST_F(TextsOnDataTest, LongTitlesTakeLines) {
  const std::string name = "snapkv(pool=max,range=candidates)+adakv(mode=mix)";
  const double room = fonts.width("+adakv(mode=mix)", Font::regular, style.small) + 1.0;
  EXPECT_THAT(break_lines(style, name, style.small, room, 3),
              ElementsAre("snapkv(pool=max,", "range=candidates)", "+adakv(mode=mix)"));
  EXPECT_THAT(break_lines(style, name, style.small, room, 1), ElementsAre(HasSubstr("…")));
  EXPECT_THAT(break_lines(style, "retrieval 17 (26 to 14)", style.small,
                          fonts.width("retrieval 17 (26 to", Font::regular, style.small), 2),
              ElementsAre("retrieval 17", "(26 to 14)"));
  EXPECT_THAT(break_lines(style, "two words", style.small, 400.0, 3), ElementsAre("two words"));
}

}  // namespace
}  // namespace kvloupe::figure
