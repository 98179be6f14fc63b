// The judge of texts over data: what it must find, and what it must let pass.

#include "tests/figure/texts_on_data.h"

#include <gmock/gmock.h>

#include "app/plot/frame.h"
#include "app/plot/line_plot.h"

namespace kvloupe::figure {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class TextsOnDataTest : public ::testing::Test {
 protected:
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
    Markers dots;
    dots.fill = style.colours.retained;
    dots.points = std::move(points);
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
