#include "app/window/tile_layout.h"

#include <gtest/gtest.h>

#include <cmath>

namespace kvloupe::window {
namespace {

constexpr double kGap = 16.0;
constexpr double kHeader = 32.0;

TEST(TileLayout, SquareMapsLieSideBySideInAWideAreaAndAboveEachOtherInATallOne) {
  const std::vector<double> squares = {1.0, 1.0};
  const auto wide = arrange_tiles(squares, 1200, 600, kGap, kHeader);
  EXPECT_EQ(wide[0].y, wide[1].y);
  const auto tall = arrange_tiles(squares, 500, 900, kGap, kHeader);
  EXPECT_EQ(tall[0].x, tall[1].x);
  EXPECT_GT(tall[1].y, tall[0].y);
}

TEST(TileLayout, WideStripsLieAboveEachOther) {
  const auto places = arrange_tiles(std::vector{2.4, 2.4}, 1000, 800, kGap, kHeader);
  EXPECT_EQ(places[0].x, places[1].x);
}

TEST(TileLayout, TilesFillTheAreaAndNeverOverlap) {
  for (const double width : {300.0, 743.0, 1600.0}) {
    for (const double height : {250.0, 611.0, 1200.0}) {
      for (std::size_t count = 1; count <= 4; ++count) {
        const auto places = arrange_tiles(std::vector<double>(count, 1.3), width, height, kGap, kHeader);
        ASSERT_EQ(places.size(), count);
        double right = 0.0;
        double bottom = 0.0;
        for (std::size_t i = 0; i < count; ++i) {
          const figure::Rect& a = places[i];
          EXPECT_EQ(a.x, std::floor(a.x));
          EXPECT_EQ(a.y, std::floor(a.y));
          right = std::max(right, a.right());
          bottom = std::max(bottom, a.bottom());
          for (std::size_t j = 0; j < i; ++j) {
            const figure::Rect& b = places[j];
            const bool apart = a.x >= b.right() + kGap - 1 || b.x >= a.right() + kGap - 1 ||
                               a.y >= b.bottom() + kGap - 1 || b.y >= a.bottom() + kGap - 1;
            EXPECT_TRUE(apart) << count << " tiles in " << width << " x " << height;
          }
        }
        EXPECT_LE(right, width);
        EXPECT_LE(bottom, height);
        EXPECT_GT(right, width - 4);
        EXPECT_GT(bottom, height - 4);
      }
    }
  }
}

}  // namespace
}  // namespace kvloupe::window
