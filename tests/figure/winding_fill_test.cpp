// One rule of filling on every back end: non-zero winding over all sub-paths of a path.

#include "app/scene/polygon.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

#include "app/scene/cairo_backend.h"
#include "app/scene/svg_backend.h"
#include "tests/figure/filled_paths.h"

namespace kvloupe::figure {
namespace {

bool inside(const std::vector<Point>& polygon, Point p) { return signed_distance(polygon, p) < 0; }

double distance_to_edges(const std::vector<Polyline>& lines, Point p) {
  double nearest = 1e9;
  for (const Polyline& line : lines)
    nearest = std::min(nearest, std::abs(signed_distance(line.points, p)));
  return nearest;
}

class WindingFillTest : public ::testing::TestWithParam<test::FilledPath> {};

TEST_P(WindingFillTest, CoversWhatCairoFillsAndNothingTwice) {
  const Path& path = GetParam().path;
  Scene scene;
  scene.width = scene.height = test::kFilledSide;
  scene.add(path);
  const TextMetrics fonts;
  const Pixels paper = render(scene, fonts, 1.0);
  const std::vector<Polyline> lines = flatten(path, 0.01);
  const bool opaque = path.fill->alpha == 255;
  const WindingFill fill = winding_fill(lines, opaque);
  int compared = 0;
  for (int y = 0; y < paper.height; ++y) {
    for (int x = 0; x < paper.width; ++x) {
      const Point p{x + 0.5, y + 0.5};
      if (distance_to_edges(lines, p) < 1.5) continue;
      ++compared;
      int times = 0;
      for (const std::size_t i : fill.alone) times += inside(lines[i].points, p) ? 1 : 0;
      for (const FillPiece& piece : fill.pieces)
        times += inside({piece.corners.begin(), piece.corners.end()}, p) ? 1 : 0;
      if (opaque) times = std::min(times, 1);
      const int blue = paper.rgba[static_cast<std::size_t>((y * paper.width + x) * 4 + 2)];
      const int wanted = blue < 250 ? 1 : 0;  // the page is white, the fill has no blue
      ASSERT_EQ(times, wanted) << GetParam().name << " at " << x << ", " << y;
    }
  }
  EXPECT_GT(compared, test::kFilledSide * test::kFilledSide / 3);
}

TEST_P(WindingFillTest, SvgFillsAllSubPathsTogetherByTheSameRule) {
  Scene scene;
  scene.width = scene.height = test::kFilledSide;
  scene.add(GetParam().path);
  const std::string svg = write_svg(scene);
  EXPECT_EQ(svg.find("<path"), svg.rfind("<path"));
  EXPECT_EQ(svg.find("fill-rule"), std::string::npos) << "non-zero is SVG's own";
}

INSTANTIATE_TEST_SUITE_P(All, WindingFillTest, ::testing::ValuesIn(test::filled_paths()),
                         [](const auto& test) { return test.param.name; });

TEST(WindingFill, PiecesOfOneAreaAreFew) {
  Path path;
  for (int i = 0; i < 50; ++i) path.rect({i * 2.0, 0, 1.0, 10});
  EXPECT_EQ(winding_fill(flatten(path, 0.1), false).alone.size(), 50U) << "they do not meet";
  Path hole;
  hole.rect({0, 0, 10, 10});
  hole.move({2, 2}).line({2, 8}).line({8, 8}).line({8, 2}).close();
  EXPECT_EQ(winding_fill(flatten(hole, 0.1), true).pieces.size(), 4U);
}

TEST(WindingFill, TheAreaUnderALongCurveIsCutAcross) {
  Path path;
  path.move({0, 100});
  for (int i = 0; i <= 2000; ++i) path.line({i * 0.1, 50 + 40 * std::sin(i * 1.3)});
  path.line({200, 100}).close();
  EXPECT_LT(winding_fill(flatten(path, 0.1), false).pieces.size(), 2100U);
}

TEST(WindingFill, NothingToFillIsNoPiece) {
  EXPECT_TRUE(winding_fill({}, true).pieces.empty());
  EXPECT_TRUE(winding_fill({{{{1, 1}, {2, 2}}, false}}, true).pieces.empty());
  Polyline flat{{{0, 5}, {10, 5}, {4, 5}, {8, 5}}, true};
  const WindingFill fill = winding_fill({flat, flat}, false);
  for (const FillPiece& piece : fill.pieces)
    for (const Point p : piece.corners) EXPECT_EQ(p.y, 5.0);
}

TEST(IsConvex, AStarIsNot) {
  std::vector<Point> star;
  for (int i = 0; i < 5; ++i) {
    const double angle = i * 4 * std::numbers::pi / 5;
    star.push_back({std::sin(angle), std::cos(angle)});
  }
  EXPECT_FALSE(is_convex(star));
  EXPECT_TRUE(is_convex({{0, 0}, {2, 0}, {3, 1}, {2, 2}, {0, 2}}));
  EXPECT_TRUE(is_convex({{0, 0}, {0, 2}, {2, 2}, {2, 0}}));
  EXPECT_FALSE(is_convex({{0, 0}, {4, 0}, {1, 1}, {0, 4}}));
}

}  // namespace
}  // namespace kvloupe::figure
