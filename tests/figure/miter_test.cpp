// The corner of a steep curve ends near its point, on every back end.

#include "app/scene/miter.h"

#include <gmock/gmock.h>
#include <png.h>

#include <cstdint>
#include <string>
#include <vector>

#include "app/export/page.h"
#include "app/plot/frame.h"
#include "app/scene/cairo_backend.h"
#include "app/scene/svg_backend.h"

namespace kvloupe::figure {
namespace {

using ::testing::HasSubstr;

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
