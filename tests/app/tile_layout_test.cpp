#include "app/window/tiles/tile_layout.h"
#include "tests/support/test.h"

#include <ostream>

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

TEST(TileLayout, WidthsChosenByHandHoldInTheRowsThatThereAreAnyway) {
  std::vector<TileNeed> tiles = {kMap, kMap};
  tiles[0].share = 300.0 / 1184.0;
  const auto by_aspect = arrange({kMap, kMap}, 1200, 600);
  EXPECT_EQ(arrange(tiles, 1200, 600).places[0].width, by_aspect.places[0].width)
      << "each of the row needs one";
  tiles[1].share = 884.0 / 1184.0;
  const auto places = arrange(tiles, 1200, 600).places;
  EXPECT_EQ(places[0].width, 300);
  EXPECT_EQ(places[1].width, 884);
  EXPECT_EQ(places[0].height, by_aspect.places[0].height);
  tiles[0].least_width = 400;
  EXPECT_EQ(arrange(tiles, 1200, 600).places[0].width, 400) << "but it can be read";
  const auto tall = arrange(tiles, 500, 900).places;
  EXPECT_EQ(tall[0].width, 500) << "one above the other";
}

TEST(TileLayout, RowsStayWhereTheyAreAskedToAsLongAsAllCanBeRead) {
  std::vector<TileNeed> tiles = {kMap, kMap};
  for (TileNeed& tile : tiles) tile.least_width = tile.least_height = 200;
  const auto wide = arrange(tiles, 900, 600);
  EXPECT_EQ(wide.breaks, 0U);
  EXPECT_EQ(arrange_tiles(tiles, 450, 800, kGap, kHeader).breaks, 1U);
  EXPECT_EQ(arrange_tiles(tiles, 450, 800, kGap, kHeader, wide.breaks).breaks, 0U);
  EXPECT_EQ(arrange_tiles(tiles, 400, 800, kGap, kHeader, wide.breaks).breaks, 1U)
      << "two of 192 pixels could not be read";
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

/// As the window lays out a screen of so many pixels at that scale.
struct Screen {
  double width, height, scale;
  friend std::ostream& operator<<(std::ostream& out, const Screen& s) {
    return out << s.width << " x " << s.height << " at " << s.scale;
  }
};

StageSizes sizes_at(const Screen& screen) {
  const double u = screen.scale;
  StageSizes sizes{.left = std::clamp(screen.width * 0.26, 200 * u, 256 * u),
                   .right = std::clamp(screen.width * 0.26, 220 * u, 280 * u),
                   .bottom = std::clamp(screen.height * 0.2, 128 * u, 192 * u),
                   .side_rail = 28 * u,
                   .bottom_rail = 40 * u};
  sizes.margin = sizes.below = 8 * u;
  sizes.gap = 16 * u;
  sizes.header = sizes.tabs = 32 * u;
  return sizes;
}

std::vector<TileNeed> needs_at(std::size_t count, double scale) {
  const TileNeed map = with_least_room({1.0, true}, 1.0, scale);
  std::vector<TileNeed> needs(count, map);
  needs.front() = with_least_room({2.4, false}, 2.4, scale);
  return needs;
}

constexpr Panels kAll{true, true, true};

StageLayout stage(const Screen& screen, std::size_t count, std::size_t active = 0,
                  Panels wanted = kAll) {
  return lay_out_stage(needs_at(count, screen.scale), active, wanted, sizes_at(screen),
                       screen.width, screen.height - 24 * screen.scale);
}

const Screen kScreens[] = {{1280, 720, 1.5},  {1024, 768, 1.25}, {3840, 2160, 2.0},
                           {1600, 1000, 1.0}, {1280, 720, 1.0},  {1920, 1080, 1.0},
                           {640, 480, 1.0}};

TEST(StageLayout, WishesAreMetAsFarAsNothingFoldsBecauseOfThem) {
  const std::vector<double StageSizes::*> order = {&StageSizes::left, &StageSizes::right,
                                                   &StageSizes::bottom};
  for (const Screen& screen : kScreens) {
    const StageSizes least = sizes_at(screen);
    const double height = screen.height - 24 * screen.scale;
    for (std::size_t count = 1; count <= 4; ++count) {
      const auto needs = needs_at(count, screen.scale);
      const StageLayout base = stage(screen, count);
      const auto with = [&](StageSizes& wish) {
        return lay_out_stage_with(needs, 0, kAll, least, wish, order, screen.width, height);
      };
      StageSizes none = least;
      EXPECT_EQ(with(none).centre.width, base.centre.width) << screen;
      EXPECT_EQ(none, least);
      StageSizes wish = least;
      wish.left = wish.right = wish.bottom = 1e4;
      const StageLayout layout = with(wish);
      EXPECT_EQ(layout.open, base.open) << screen;
      EXPECT_EQ(layout.count, base.count) << screen;
      EXPECT_GE(wish.left, least.left);
      EXPECT_GE(wish.bottom, least.bottom);
      EXPECT_LE((base.open.left ? wish.left : 0) + (base.open.right ? wish.right : 0), screen.width)
          << screen;
      if (!base.open.left) continue;
      StageSizes more = wish;
      more.left += 2;
      with(more);
      EXPECT_NEAR(more.left, wish.left, 1.0) << screen << ": there was room for more";
    }
  }
}

TEST(StageLayout, WhatIsShownCanBeReadOnEveryScreen) {
  for (const Screen& screen : kScreens) {
    const StageSizes sizes = sizes_at(screen);
    for (std::size_t count = 1; count <= 4; ++count) {
      const auto needs = needs_at(count, screen.scale);
      std::vector<bool> seen(count, false);
      for (std::size_t active = 0; active < count; ++active) {
        const StageLayout layout = stage(screen, count, active);
        ASSERT_GE(active, layout.first) << screen;
        ASSERT_LT(active, layout.first + layout.count) << screen;
        EXPECT_EQ(layout.open, stage(screen, count, 0).open)
            << "the same in every turn, " << screen;
        const double tabs = layout.count < count ? sizes.tabs : 0.0;
        const auto shown = std::span(needs).subspan(layout.first, layout.count);
        const auto tiles =
            arrange_tiles(shown, layout.centre.width - 2 * sizes.margin,
                          layout.centre.height - sizes.below - tabs, sizes.gap, sizes.header);
        EXPECT_TRUE(tiles.legible) << count << " tiles on " << screen;
        for (std::size_t i = 0; i < layout.count; ++i) {
          EXPECT_GE(tiles.places[i].width, shown[i].least_width - 2) << screen;
          EXPECT_GE(tiles.places[i].height - sizes.header, shown[i].least_height - 2) << screen;
          seen[layout.first + i] = true;
        }
      }
      EXPECT_EQ(std::count(seen.begin(), seen.end(), true), static_cast<long>(count))
          << "every tile has its turn, " << screen;
    }
  }
}

TEST(StageLayout, PanelsFoldBeforeTilesGoAndOnlyAsManyAsMust) {
  const Screen projector{1280, 720, 1.5};
  EXPECT_EQ(stage(projector, 1).open, kAll) << "one view has room";
  EXPECT_EQ(stage(projector, 2).open, (Panels{false, false, true}));
  EXPECT_EQ(stage(projector, 2).count, 2U);
  EXPECT_EQ(stage(projector, 4).count, 2U) << "two at a time";
  EXPECT_EQ(stage(projector, 4, 3).first, 2U);
  for (const Screen& roomy : {Screen{3840, 2160, 2.0}, Screen{1600, 1000, 1.0}}) {
    for (std::size_t count = 1; count <= 4; ++count) {
      EXPECT_EQ(stage(roomy, count).open, kAll) << roomy;
      EXPECT_EQ(stage(roomy, count).count, count) << roomy;
    }
  }
}

TEST(StageLayout, WhatIsNotWantedIsNeitherOpenNorARail) {
  const Screen projector{1280, 720, 1.5};
  const StageLayout layout = stage(projector, 2, 0, {false, true, false});
  EXPECT_FALSE(layout.open.left);
  EXPECT_FALSE(layout.open.bottom);
  EXPECT_EQ(layout.centre.x, 0.0);
  EXPECT_EQ(layout.centre.height, 720 - 24 * 1.5);
}

TEST(StageLayout, WhereNotEvenOneCanBeReadItHasTheWholeArea) {
  const StageLayout layout = stage({320, 320, 1.5}, 4, 2);
  EXPECT_EQ(layout.open, Panels{});
  EXPECT_EQ(layout.first, 2U);
  EXPECT_EQ(layout.count, 1U);
  EXPECT_EQ(lay_out_stage({}, 0, kAll, sizes_at({320, 320, 1.5}), 320, 300).count, 0U);
}

TEST(HeaderLayout, NothingReachesBeyondTheLineAndWhatIsMissingIsInTheList) {
  HeaderNeed need{180, 80, {90, 140, 60}, 55, 30, 16};
  for (double width = 1; width < 800; width += 1) {
    const HeaderLayout layout = lay_out_header(need, width);
    double used = need.dot + layout.title + (layout.side ? need.side : 0.0) +
                  (layout.reset ? need.reset : 0.0) + (layout.more ? need.more : 0.0);
    for (std::size_t i = 0; i < layout.choices; ++i) used += need.choices[i];
    if (width >= need.dot + need.more) {
      EXPECT_LE(used, width);
    }
    EXPECT_LE(layout.title, need.title);
    const bool all = layout.side && layout.reset && layout.choices == need.choices.size();
    EXPECT_EQ(layout.more, !all) << width;
    if (!all) {
      EXPECT_LT(width, 180 + 80 + 290 + 55 + 16 + 1);
    }
  }
  EXPECT_EQ(lay_out_header(need, 700).title, 180);
  EXPECT_EQ(lay_out_header(need, 150).title, 150 - 30 - 16) << "cut before it runs over a button";
}

TEST(HeaderLayout, ATitleAloneNeedsNoList) {
  const HeaderNeed need{180, 0, {}, 0, 30, 16};
  EXPECT_FALSE(lay_out_header(need, 100).more);
  EXPECT_EQ(lay_out_header(need, 100).title, 84);
}

}  // namespace
}  // namespace kvloupe::window
