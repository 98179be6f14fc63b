#include "app/scene/scene.h"
#include "app/plot/frame.h"
#include "app/plot/marks.h"
#include "tests/figure/text_dump.h"
#include "tests/support/test.h"

namespace kvloupe::figure {
namespace {

struct SceneTest : ::testing::Test {
  TextMetrics fonts;
  Style style = make_style(fonts);
  Scene scene = make_scene(style, 200, 100);
};

TEST_F(SceneTest, AxesAndTheirInverseAgree) {
  Axes axes{{20, 10, 100, 50},
            {AxisMeaning::value, AxisScale::log, 1e-4, 10.0, ""},
            {AxisMeaning::value, AxisScale::linear, 5.0, -5.0, ""}};
  for (const double x : {1e-4, 0.02, 3.0}) {
    for (const double y : {-5.0, 0.1, 4.0}) {
      const Point back = axes.to_data(axes.to_page(x, y));
      EXPECT_NEAR(back.x / x, 1.0, 1e-9);
      EXPECT_NEAR(back.y, y, 1e-9);
    }
  }
}

TEST_F(SceneTest, APartOfAnAxisIsShownTheWayRoundThatTheAxisIs) {
  Axis upwards{AxisMeaning::value, AxisScale::linear, 10.0, 0.0, "y"};
  upwards.show({2.0, 6.0});  // as on the command line, from and to
  EXPECT_EQ(upwards.first, 6.0);
  EXPECT_EQ(upwards.last, 2.0);
  upwards.show({5.0, 3.0});  // as zoomed on the screen, top and bottom
  EXPECT_EQ(upwards.first, 5.0);
  EXPECT_EQ(upwards.last, 3.0);
  Axis rows{AxisMeaning::token, AxisScale::linear, 0.0, 10.0, "rows"};
  rows.show({6.0, 2.0});
  EXPECT_EQ(rows.first, 2.0);
  EXPECT_EQ(rows.last, 6.0);
}

TEST_F(SceneTest, WhatIsPickedIsWhereItSays) {
  scene.axes.push_back({{20, 10, 100, 50},
                        {AxisMeaning::token, AxisScale::linear, 3, 23, ""},
                        {AxisMeaning::step, AxisScale::linear, 0, 5, ""}});
  for (double x = 20.5; x < 120; x += 3.7) {
    for (double y = 10.5; y < 60; y += 4.3) {
      const auto target = scene.pick({x, y});
      ASSERT_TRUE(target);
      EXPECT_GE(target->token, 3);
      EXPECT_LE(target->token, 22);
      const auto places = scene.where(*target);
      ASSERT_EQ(places.size(), 1U);
      EXPECT_TRUE(places[0].contains({x, y}));
    }
  }
  EXPECT_FALSE(scene.pick({10, 10}));
  Target token;
  token.token = 4;
  const auto band = scene.where(token);
  ASSERT_EQ(band.size(), 1U);
  EXPECT_EQ(band[0].height, 50);
  EXPECT_DOUBLE_EQ(band[0].width, 5);
  token.token = 99;
  EXPECT_THAT(scene.where(token), IsEmpty());
}

TEST_F(SceneTest, TokensByTokensTellKeyFromQuery) {
  scene.axes.push_back({{0, 0, 100, 100},
                        {AxisMeaning::token, AxisScale::linear, 0, 10, ""},
                        {AxisMeaning::token, AxisScale::linear, 0, 10, ""}});
  const auto target = scene.pick({35, 75});
  ASSERT_TRUE(target);
  EXPECT_EQ(target->token, 3);
  EXPECT_EQ(target->other_token, 7);
}

TEST_F(SceneTest, TheNearestPointWins) {
  scene.point_sets.push_back({{{10, 10}, {14, 10}}, {5, 6}, 4.0});
  EXPECT_EQ(scene.pick({13, 10})->token, 6);
  EXPECT_EQ(scene.pick({11, 10})->token, 5);
  EXPECT_FALSE(scene.pick({40, 10}));
}

TEST_F(SceneTest, TheNearestLineWithinReachWinsAndTheLastOfThoseThatLieOnEachOther) {
  const Rect plot{0, 0, 100, 60};
  const auto line = [&](double y, int head) {
    scene.lines.push_back({{{0, y}, {50, y}, {100, y + 20}}, {.layer = 2, .head = head}, plot});
  };
  line(20, 0);
  line(24, 1);
  EXPECT_EQ(scene.pick({30, 21.5})->head, 0);
  EXPECT_EQ(scene.pick({30, 22.5})->head, 1);
  EXPECT_EQ(scene.pick({30, 22.5})->layer, 2);
  EXPECT_EQ(scene.pick({75, 34.1})->head, 1) << "between two points of the line";
  EXPECT_FALSE(scene.pick({30, 20.0 - kLineReach - 0.1}));
  EXPECT_TRUE(scene.pick({30, 20.0 - kLineReach + 0.1}));
  line(20, 3);
  EXPECT_EQ(scene.pick({30, 20})->head, 3) << "the one that is seen";
  scene.lines.back().plot = {0, 0, 20, 60};
  EXPECT_EQ(scene.pick({30, 20})->head, 0) << "not where the plot cuts a line off";
}

TEST_F(SceneTest, WhatARegionLeavesOpenTheAxesUnderItTell) {
  scene.axes.push_back({{0, 0, 100, 40},
                        {AxisMeaning::token, AxisScale::linear, 0, 10, ""},
                        {AxisMeaning::layer, AxisScale::linear, 0, 2, ""}});
  scene.regions.push_back({{0, 10, 100, 10}, {.layer = 0, .head = 1}});
  EXPECT_EQ(*scene.pick({35, 15}), (Target{.token = 3, .layer = 0, .head = 1}));
  EXPECT_EQ(*scene.pick({35, 25}), (Target{.token = 3, .layer = 1}));
  scene.regions.push_back({{0, 0, 100, 10}, {.token = 7}});
  EXPECT_EQ(scene.pick({35, 5})->token, 7) << "its own word counts";
}

TEST_F(SceneTest, ALineOfAHeadIsFoundWhereItIsDrawn) {
  const Axes axes{{10, 10, 100, 50},
                  {AxisMeaning::value, AxisScale::log, 1, 100, ""},
                  {AxisMeaning::value, AxisScale::linear, 1, 0, ""}};
  const double gap = std::numeric_limits<double>::quiet_NaN();
  const std::vector<Point> data{{1, 0.5}, {10, 0.5}, {20, gap}, {30, 0.2}, {100, 0.2}};
  add_line(scene, axes, data, {}, {.layer = 1, .head = 2});
  ASSERT_EQ(scene.lines.size(), 2U) << "one for each unbroken run";
  const Target head{.layer = 1, .head = 2};
  EXPECT_EQ(scene.pick(axes.to_page(3, 0.5)), head);
  EXPECT_EQ(scene.pick(axes.to_page(60, 0.2)), head);
  EXPECT_FALSE(scene.pick(axes.to_page(20, 0.35))) << "in the gap there is no line";
  scene.lines.clear();
  add_line(scene, axes, data, {});
  EXPECT_TRUE(scene.lines.empty()) << "a line of nobody";
}

TEST_F(SceneTest, SoundSceneHasNoProblems) {
  scene.add(make_text(style, "Token", {50, 50}));
  scene.add(make_line({1, 2}, {3, 4}, style.colours.ink, 0.5));
  scene.add(PushClip{{0, 0, 10, 10}});
  scene.add(PopClip{});
  EXPECT_THAT(scene_problems(scene), IsEmpty());
  EXPECT_THAT(write_text_dump(scene), HasSubstr("text \"Token\" 50.0,50.0"));
}

TEST_F(SceneTest, ProblemsAreFound) {
  const auto problem_of = [&](auto item) {
    Scene bad = scene;
    bad.add(std::move(item));
    const auto problems = scene_problems(bad);
    return problems.empty() ? std::string("none") : problems.front();
  };
  EXPECT_THAT(problem_of(make_line({1, std::nan("")}, {3, 4}, style.colours.ink, 0.5)),
              HasSubstr("not a number"));
  EXPECT_THAT(problem_of(PushClip{{0, 0, 10, 10}}), HasSubstr("not popped"));
  EXPECT_THAT(problem_of(PopClip{}), HasSubstr("not pushed"));
  EXPECT_THAT(problem_of(make_text(style, "far out", {190, 50})), HasSubstr("outside"));
  EXPECT_THAT(problem_of(Image{nullptr, {0, 0, 1, 1}, "key", Interpolation::nearest}),
              HasSubstr("lacks pixels"));
  Path broken;
  broken.line({1, 1});
  broken.stroke = Stroke{};
  EXPECT_THAT(problem_of(broken), HasSubstr("begin with a move"));
  scene.add(make_text(style, "one", {50, 50}));
  EXPECT_THAT(problem_of(make_text(style, "two", {55, 52})), HasSubstr("overlaps"));
}

TEST_F(SceneTest, MeasuresAreSumsAndMissingGlyphsHaveSpares) {
  const double a = fonts.width("a", Font::regular, 10);
  const double b = fonts.width("b", Font::regular, 10);
  EXPECT_NEAR(fonts.width("ab", Font::regular, 10), a + b, 1e-9);
  EXPECT_NEAR(fonts.width("ab", Font::regular, 20), 2 * (a + b), 1e-9);
  for (const char* text : {"ℒ", "θ", "⁻", "→", "↵", "−"}) {
    for (const Glyph& glyph : fonts.layout(text, Font::regular)) EXPECT_NE(glyph.index, 0U) << text;
  }
  EXPECT_GT(fonts.width("\xff\xfe", Font::regular, 10), 0.0);
  EXPECT_EQ(fonts.fit("abc", Font::regular, 10, 1000), "abc");
  const std::string cut = fonts.fit("a long line of text", Font::regular, 10, 40);
  EXPECT_LE(fonts.width(cut, Font::regular, 10), 40.0);
  EXPECT_THAT(cut, HasSubstr("…"));
}

/// A file draws at a place the cell that is there, whole numbers of pixels to a cell.
TEST(Enlarged, EveryCellIsRepeatedAndNothingElse) {
  const auto cells = std::make_shared<Pixels>();
  cells->width = 3;
  cells->height = 2;
  for (std::uint8_t i = 0; i < 24; ++i) cells->rgba.push_back(static_cast<std::uint8_t>(i * 7));
  const auto big = enlarged({cells, {10, 20, 72, 36}, "key", Interpolation::nearest}, 300);
  EXPECT_EQ(big->width, 300);   // an inch across
  EXPECT_EQ(big->height, 150);  // half an inch down
  for (const auto& [y, x] : test::cells(big->height, big->width)) {
    const int cell = y / (big->height / 2) * 3 + x / (big->width / 3);
    for (int channel = 0; channel < 4; ++channel) {
      ASSERT_EQ(big->rgba[(y * big->width + x) * 4 + channel], cells->rgba[cell * 4 + channel])
          << x << ", " << y;
    }
  }
}

TEST(Enlarged, LeavesWhatNeedsItNot) {
  const auto fine = std::make_shared<Pixels>(Pixels{400, 1, std::vector<std::uint8_t>(1600, 9)});
  const Image drawn{fine, {0, 0, 72, 0.2}, "key", Interpolation::nearest};
  EXPECT_EQ(enlarged(drawn, 300), fine);
  const auto coarse = std::make_shared<Pixels>(Pixels{1, 1, {1, 2, 3, 4}});
  EXPECT_EQ(enlarged({coarse, {0, 0, 72, 72}, "key", Interpolation::smooth}, 300), coarse);
  EXPECT_EQ(enlarged({nullptr, {0, 0, 72, 72}, "key", Interpolation::nearest}, 300), nullptr);
  const auto huge = enlarged({coarse, {0, 0, 7.2e7, 7.2e7}, "key", Interpolation::nearest}, 300);
  EXPECT_LE(static_cast<double>(huge->width) * huge->height, double{1 << 24});
  EXPECT_GE(huge->width, 1000);
}

TEST(Axis, AKneeGivesTheFirstPartItsShareAndInverts) {
  Axis axis{AxisMeaning::step, AxisScale::linear, 0.0, 212.0, "Step"};
  axis.knee = 12.0;
  axis.knee_share = 0.4;
  EXPECT_DOUBLE_EQ(axis.share_of(0), 0.0);
  EXPECT_DOUBLE_EQ(axis.share_of(12), 0.4);
  EXPECT_DOUBLE_EQ(axis.share_of(212), 1.0);
  for (double value = 0.5; value < 212; value += 1.0) {
    EXPECT_NEAR(axis.value_at(axis.share_of(value)), value, 1e-9);
  }
}

}  // namespace
}  // namespace kvloupe::figure
