// Pictures as they were looked at: five figures as PNG, compared pixel by pixel with a tolerance
// for what test::fonts()' rasterisers do. After a wanted change, look at the pictures, then
//   KVLOUPE_UPDATE_BASELINES=1 build/bin/test_figure_fast --gtest_filter='*Picture*'

#include <png.h>

#include "app/document/figure_file.h"
#include "tests/figure/baseline_fonts.h"
#include "tests/figure/made_figures.h"
#include "tests/support/test.h"

namespace kvloupe::figure {
namespace {

struct Picture {
  int width = 0;
  int height = 0;
  std::vector<std::uint8_t> rgb;
};

Picture decode(const std::string& bytes) {
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  Picture picture;
  if (png_image_begin_read_from_memory(&image, bytes.data(), bytes.size()) == 0) return picture;
  image.format = PNG_FORMAT_RGB;
  picture.rgb.resize(PNG_IMAGE_SIZE(image));
  const png_color white{255, 255, 255};
  if (png_image_finish_read(&image, &white, picture.rgb.data(), 0, nullptr) == 0) return {};
  picture.width = static_cast<int>(image.width);
  picture.height = static_cast<int>(image.height);
  return picture;
}

/// Share of the pixels that differ by more than `tolerance` of 255 in any colour from every pixel
/// within one of their place: an edge may move by a pixel, a line may not vanish.
double different_share(const Picture& a, const Picture& b, int tolerance) {
  long different = 0;
  const auto near = [&](int x, int y, const std::uint8_t* wanted) {
    for (int v = std::max(0, y - 1); v <= std::min(b.height - 1, y + 1); ++v) {
      for (int u = std::max(0, x - 1); u <= std::min(b.width - 1, x + 1); ++u) {
        const std::uint8_t* there = &b.rgb[static_cast<std::size_t>(v * b.width + u) * 3];
        bool same = true;
        for (int c = 0; c < 3; ++c) same = same && std::abs(there[c] - wanted[c]) <= tolerance;
        if (same) return true;
      }
    }
    return false;
  };
  for (int y = 0; y < a.height; ++y) {
    for (int x = 0; x < a.width; ++x)
      different += near(x, y, &a.rgb[static_cast<std::size_t>(y * a.width + x) * 3]) ? 0 : 1;
  }
  return static_cast<double>(different) / (static_cast<double>(a.width) * a.height);
}

class PictureTest : public ::testing::TestWithParam<const char*> {
 protected:
  std::string draw(Theme theme) const {
    const test::TemporaryFolder folder;
    test::SyntheticTraceOptions trace{.layers = 3, .clusters = 4};
    const FigureInfo& info = find_figure(GetParam());
    const request::FigureMaker maker(test::open_synthetic_trace(folder / "synthetic.h5", trace));
    request::FigureSettings settings{.policy = parse_policy("h2o+recent(20%)+sinks(2)")};
    return file_of(info, maker.make(info, settings, test::unwatched), FileFormat::png,
                   {.size = parse_page_size("480x320px"), .theme = theme}, test::fonts());
  }
};

TEST_P(PictureTest, LooksAsItDid) {
  const std::filesystem::path path = std::filesystem::path(KVLOUPE_SOURCE_DIR) /
                                     "tests/figure/baselines" / (std::string(GetParam()) + ".png");
  const std::string bytes = draw(Theme::light);
  if (std::getenv("KVLOUPE_UPDATE_BASELINES") != nullptr) {
    std::ofstream(path, std::ios::binary) << bytes;
    return;
  }
  if (!test::has_fonts_of_the_baselines(TextMetrics())) GTEST_SKIP() << test::kOtherFonts;
  const Picture now = decode(bytes);
  const Picture before = decode(test::file_text(path));
  ASSERT_EQ(now.width, before.width);
  ASSERT_EQ(now.height, before.height);
  ASSERT_GT(now.width, 0);
  EXPECT_LT(different_share(now, before, 40), 0.002);
  EXPECT_LT(different_share(before, now, 40), 0.002);
}

TEST_P(PictureTest, TheComparisonSeesADifference) {
  const Picture light = decode(draw(Theme::light));
  Picture marked = light;
  // A line a hundredth of the picture high, across it.
  for (int y = marked.height / 2; y < marked.height / 2 + marked.height / 100 + 1; ++y) {
    for (int i = 0; i < marked.width * 3; ++i) marked.rgb[y * marked.width * 3 + i] ^= 0x80;
  }
  EXPECT_GT(different_share(marked, light, 40), 0.002);
  EXPECT_GT(different_share(light, decode(draw(Theme::dark)), 40), 0.2);
}

INSTANTIATE_TEST_SUITE_P(All, PictureTest,
                         ::testing::Values("overview", "filmstrip", "pca", "agreement",
                                           "budget-curve"),
                         [](const auto& test) {
                           std::string name = test.param;
                           for (char& c : name) c = c == '-' ? '_' : c;
                           return name;
                         });

}  // namespace
}  // namespace kvloupe::figure
