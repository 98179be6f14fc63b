#include "app/window/tile_layout.h"

#include <gtest/gtest.h>

#include <cmath>

namespace kvloupe::window {
namespace {

constexpr double kGap = 16.0;
constexpr double kHeader = 32.0;
constexpr TileNeed kMap{1.0, true};
constexpr TileNeed kStrip{2.4, false};

TileArrangement arrange(const std::vector<TileNeed>& tiles, double width, double height) {
  return arrange_tiles(tiles, width, height, kGap, kHeader);
}

TEST(TileLayout, SquareMapsLieSideBySideInAWideAreaAndAboveEachOtherInATallOne) {
  const auto wide = arrange({kMap, kMap}, 1200, 600).places;
  EXPECT_EQ(wide[0].y, wide[1].y);
  const auto tall = arrange({kMap, kMap}, 500, 900).places;
  EXPECT_EQ(tall[0].x, tall[1].x);
  EXPECT_GT(tall[1].y, tall[0].y);
}

TEST(TileLayout, WideStripsLieAboveEachOther) {
  const auto places = arrange({kStrip, kStrip}, 1000, 800).places;
  EXPECT_EQ(places[0].x, places[1].x);
}

TEST(TileLayout, MapsLieAboveAStripThatTakesTheWholeWidth) {
  const auto places = arrange({kMap, kMap, kStrip}, 744, 585).places;
  EXPECT_EQ(places[0].y, places[1].y);
  EXPECT_GT(places[2].y, places[0].y);
  EXPECT_EQ(places[2].width, 744);
}

TEST(TileLayout, WhatMapsLeaveIsToldAndWhatCanBeStretchedLeavesNothing) {
  // Two squares of (744 − 16) / 2 = 364 and a header of 32: 396 of 585.
  EXPECT_EQ(arrange({kMap, kMap}, 744, 585).height_used, 396);
  EXPECT_EQ(arrange({kMap, kStrip}, 744, 585).height_used, 585);
  EXPECT_EQ(arrange({kMap}, 500, 300).height_used, 300) << "no more than there is";
}

TEST(TileLayout, TilesFillTheAreaAndNeverOverlap) {
  for (const double width : {300.0, 743.0, 1600.0}) {
    for (const double height : {250.0, 611.0, 1200.0}) {
      for (std::size_t count = 1; count <= 4; ++count) {
        for (unsigned kinds = 0; kinds < 16; ++kinds) {
          std::vector<TileNeed> tiles;
          for (std::size_t i = 0; i < count; ++i)
            tiles.push_back(((kinds >> i) & 1U) != 0 ? kMap : kStrip);
          const auto places = arrange(tiles, width, height).places;
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
}

}  // namespace
}  // namespace kvloupe::window
