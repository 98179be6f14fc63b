// The screen, Cairo and a browser's SVG fill a path alike.

#include <imgui.h>
#include <png.h>

#include "app/scene/cairo_backend.h"
#include "app/scene/imgui_backend.h"
#include "app/scene/svg_backend.h"
#include "app/window/shell/surface.h"
#include "tests/app/chromium.h"
#include "tests/app/virtual_display.h"
#include "tests/figure/filled_paths.h"
#include "tests/support/test.h"

namespace kvloupe::figure {
namespace {

constexpr int kSide = test::kFilledSide;

struct Rgb {
  int width = 0;
  std::vector<std::uint8_t> bytes;  // [height, width, 3]
  const std::uint8_t* at(int x, int y) const {
    return &bytes[static_cast<std::size_t>(y * width + x) * 3];
  }
};

Scene scene_of(const Path& path) {
  Scene scene;
  scene.width = scene.height = kSide;
  scene.add(path);
  return scene;
}

Rgb on_paper(const Path& path) {
  const TextMetrics fonts;
  const Pixels pixels = render(scene_of(path), fonts, 1.0);
  Rgb out{pixels.width, {}};
  for (std::size_t i = 0; i < pixels.rgba.size(); i += 4)
    out.bytes.insert(out.bytes.end(), &pixels.rgba[i], &pixels.rgba[i] + 3);
  return out;
}

Rgb decode(const std::string& png) {
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  Rgb out;
  if (png_image_begin_read_from_memory(&image, png.data(), png.size()) == 0) return out;
  image.format = PNG_FORMAT_RGB;
  out.bytes.resize(PNG_IMAGE_SIZE(image));
  png_image_finish_read(&image, nullptr, out.bytes.data(), 0, nullptr);
  out.width = static_cast<int>(image.width);
  return out;
}

/// Whether the colour is the same wherever no edge is near.
void expect_alike(const std::string& name, const Path& path, const Rgb& picture) {
  ASSERT_GE(picture.width, kSide) << name;
  const Rgb paper = on_paper(path);
  Path edges = path;
  edges.fill.reset();
  edges.stroke = Stroke{{0, 0, 0, 255}, 3.2, {}, {}};
  const Rgb near_edges = on_paper(edges);
  int compared = 0;
  for (int y = 0; y < kSide; ++y) {
    for (int x = 0; x < kSide; ++x) {
      if (near_edges.at(x, y)[0] < 255) continue;
      ++compared;
      for (int c = 0; c < 3; ++c)
        ASSERT_NEAR(picture.at(x, y)[c], paper.at(x, y)[c], 3) << name << " " << x << ", " << y;
    }
  }
  EXPECT_GT(compared, kSide * kSide / 3);
}

TEST(FillRule, TheScreenFillsAsPaperDoes) {
  const std::string no_display = test::need_display();
  if (!no_display.empty()) GTEST_SKIP() << no_display;
  window::Surface surface({"fill", 200, 200, true});
  const TextMetrics fonts;
  ImguiBackend backend(fonts);
  ImGui::GetIO().Fonts->AddFontDefault();
  ImGui::GetIO().Fonts->Build();
  surface.upload_fonts();
  for (const test::FilledPath& one : test::filled_paths()) {
    surface.begin_frame();
    backend.draw(scene_of(one.path), *ImGui::GetBackgroundDrawList(), 0, 0, 1.0F);
    surface.end_frame();
    backend.end_frame();
    const window::Picture picture = surface.picture();
    expect_alike(one.name, one.path, {picture.width, picture.rgb});
  }
}

TEST(FillRule, ABrowserFillsTheSvgAsPaperDoes) {
  if (test::Chromium::program().empty()) GTEST_SKIP() << "no Chromium";
  const test::TemporaryFolder folder;
  test::Chromium browser;
  for (const test::FilledPath& one : test::filled_paths()) {
    std::ofstream(folder / "path.svg", std::ios::binary) << write_svg(scene_of(one.path), 1.0);
    browser.open(folder / "path.svg");
    expect_alike(one.name, one.path, decode(browser.screenshot()));
  }
}

}  // namespace
}  // namespace kvloupe::figure
