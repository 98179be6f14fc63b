// One rule of filling on every back end: non-zero winding over all sub-paths of a path.

#include "app/scene/polygon.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <png.h>

#include <cmath>
#include <cstdint>
#include <numbers>
#include <string>
#include <vector>

#include "app/export/page.h"
#include "app/plot/frame.h"
#include "app/scene/cairo_backend.h"
#include "app/scene/miter.h"
#include "app/scene/svg_backend.h"
#include "tests/figure/filled_paths.h"

namespace kvloupe::figure {
namespace {

using testing::HasSubstr;

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
      const int blue = paper.rgba[(y * paper.width + x) * 4 + 2];
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

// The corner of a steep curve ends near its point, on every back end.

/// A needle up to y = 20 in a stroke of 2 points: without a limit its corner would end at 0.
Scene needle(const Style& style) {
  Scene scene = make_scene(style, 40.0, 60.0);
  Path path;
  path.move({18.0, 58.0}).line({20.0, 20.0}).line({22.0, 58.0});
  path.stroke = Stroke{style.colours.ink, 2.0, {}, Cap::butt};
  scene.add(std::move(path));
  return scene;
}

TEST(MiterTest, ACornerEndsNearItsPointInPixels) {
  const TextMetrics fonts;
  const std::string bytes = write_png(needle(make_style(fonts)), fonts, 4.0);
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  ASSERT_NE(png_image_begin_read_from_memory(&image, bytes.data(), bytes.size()), 0);
  image.format = PNG_FORMAT_GRAY;
  std::vector<std::uint8_t> grey(PNG_IMAGE_SIZE(image));
  const png_color white{255, 255, 255};
  ASSERT_NE(png_image_finish_read(&image, &white, grey.data(), 0, nullptr), 0);
  int highest = -1;  // the first row of pixels with ink
  for (std::size_t i = 0; i < grey.size() && highest < 0; ++i) {
    if (grey[i] < 128) highest = static_cast<int>(i / image.width);
  }
  const double top = highest / 4.0;
  EXPECT_LT(top, 20.5) << "the needle is there";
  EXPECT_GT(top, 20.0 - kMiterLimit / 2.0 * 2.0) << "and no higher than its limit";
}

TEST(MiterTest, SvgAndPagesHaveTheLimit) {
  const TextMetrics fonts;
  const Scene scene = needle(make_style(fonts));
  EXPECT_THAT(write_svg(scene, 0.0), HasSubstr("stroke-miterlimit=\"2.2\""));
  html::PageFigure figure;
  figure.pictures.push_back({scene, needle(make_style(fonts, Theme::dark)), nullptr});
  html::Page page;
  page.sections.emplace_back();
  page.sections.back().figures.push_back(std::move(figure));
  EXPECT_THAT(html::write_page(page), HasSubstr("stroke-miterlimit=\"2.2\""));
}

}  // namespace
}  // namespace kvloupe::figure
