// Cells that share a pixel: the light of the picture is that of the cells, at every size.

#include "app/plot/blended_cells.h"

#include <gtest/gtest.h>

#include <random>

#include "app/scene/style.h"

namespace kvloupe::figure {
namespace {

/// Mean light of a picture, decoded here once more.
std::array<double, 3> mean_light(const Pixels& pixels) {
  std::array<double, 3> sum{};
  for (std::size_t i = 0; i < pixels.rgba.size(); i += 4) {
    for (std::size_t c = 0; c < 3; ++c) {
      const double s = pixels.rgba[i + c] / 255.0;
      sum[c] += s <= 0.04045 ? s / 12.92 : std::pow((s + 0.055) / 1.055, 2.4);
    }
  }
  for (double& one : sum) one /= static_cast<double>(pixels.rgba.size() / 4);
  return sum;
}

TEST(Light, AColourHasItsOwnLight) {
  for (int i = 0; i < 256; ++i) {
    const auto c = static_cast<std::uint8_t>(i);
    EXPECT_EQ(colour_of(light_of({c, 0, c, 255})), (Colour{c, 0, c, 255}));
  }
  // Half of white's light is a grey of 188, not 128.
  EXPECT_EQ(colour_of({0.5F, 0.5F, 0.5F}).red, 188);
}

TEST(CellPlaces, EveryPixelIsCoveredByItsArea) {
  for (const auto& [count, pixels] : {std::pair{7, 3}, {7, 7}, {1943, 320}, {5, 1}, {1000, 999}}) {
    std::vector<double> area(static_cast<std::size_t>(pixels) + 1);
    for (const CellPlace& place : cell_places(count, pixels)) {
      const double one = static_cast<double>(pixels) / count;
      ASSERT_GT(place.here, 0.0F);
      ASSERT_LE(place.here, 1.0F);
      area[static_cast<std::size_t>(place.pixel)] += one * place.here;
      area[static_cast<std::size_t>(place.pixel) + 1] += one * (1.0 - place.here);
    }
    for (int x = 0; x < pixels; ++x)
      EXPECT_NEAR(area[static_cast<std::size_t>(x)], 1.0, 1e-4) << count << " " << pixels;
    EXPECT_NEAR(area.back(), 0.0, 1e-4);
  }
}

TEST(BlendCells, APixelThatHoldsOneCellHasItsColour) {
  const std::array colours{Colour{1, 2, 3, 255}, Colour{0, 114, 178, 255}, Colour{250, 9, 99, 255}};
  const auto of = [&](int row, int column) {
    return colours[static_cast<std::size_t>((row + column) % 3)];
  };
  const auto pixels = blend_cells({2, 6, 3, 8}, 500, 500, of);
  ASSERT_EQ(pixels->width, 5);
  ASSERT_EQ(pixels->height, 4);
  for (int y = 0; y < 4; ++y) {
    for (int x = 0; x < 5; ++x) {
      const std::uint8_t* p = &pixels->rgba[static_cast<std::size_t>(4 * (y * 5 + x))];
      EXPECT_EQ((Colour{p[0], p[1], p[2], p[3]}), of(2 + y, 3 + x)) << x << " " << y;
    }
  }
}

TEST(BlendCells, ByHand) {
  // Three cells in two pixels: black, white, black; each pixel is a third white.
  const auto of = [](int, int column) {
    return column == 1 ? Colour{255, 255, 255, 255} : Colour{0, 0, 0, 255};
  };
  const auto pixels = blend_cells({0, 1, 0, 3}, 2, 1, of);
  EXPECT_EQ(pixels->rgba, (std::vector<std::uint8_t>{156, 156, 156, 255, 156, 156, 156, 255}));
}

/// The shares that were seen to be shown wrong: one policy alone 20 % each, both 5 %, neither 55 %.
TEST(BlendCells, ThePicturesLightIsThatOfTheTokensInEveryTheme) {
  constexpr int kTokens = 1943, kRows = 90;
  for (const Theme theme : kThemes) {
    const Palette p = palette(theme);
    const std::array colours{p.retained, p.evicted, p.both, p.neither};
    std::mt19937 random(3);
    std::discrete_distribution<int> fate({20, 20, 5, 55});
    std::vector<int> fates(static_cast<std::size_t>(kTokens * kRows));
    for (int& one : fates) one = fate(random);
    std::array<double, 3> expected{};
    for (const int one : fates) {
      const Light light = light_of(colours[static_cast<std::size_t>(one)]);
      for (std::size_t c = 0; c < 3; ++c)
        expected[c] += light[c] / static_cast<double>(fates.size());
    }
    for (const auto& [width, height] : {std::pair{320, 90}, {320, 37}, {33, 2}, {1500, 60}}) {
      const auto pixels = blend_cells({0, kRows, 0, kTokens}, width, height, [&](int row, int t) {
        return colours[static_cast<std::size_t>(
            fates[static_cast<std::size_t>(row * kTokens + t)])];
      });
      ASSERT_EQ(pixels->width, width);
      ASSERT_EQ(pixels->height, height);
      const std::array<double, 3> found = mean_light(*pixels);
      for (std::size_t c = 0; c < 3; ++c) EXPECT_NEAR(found[c], expected[c], 0.002);
    }
  }
}

}  // namespace
}  // namespace kvloupe::figure
