#include "tests/figure/dump_difference.h"

#include <gmock/gmock.h>

#include <cmath>

#include "app/plot/frame.h"
#include "tests/figure/text_dump.h"

namespace kvloupe::figure {
namespace {

using test::dump_difference;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class Dump : public ::testing::Test {
 protected:
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

}  // namespace
}  // namespace kvloupe::figure
