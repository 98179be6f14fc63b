#include "app/scene/colour_map.h"

#include <gtest/gtest.h>

#include <cmath>

#include "analysis/error.h"
#include "app/scene/style.h"

namespace kvloupe::figure {
namespace {

TEST(ColourMap, LightnessOfAmountsRisesEvenly) {
  for (const AmountMap map : {AmountMap::viridis, AmountMap::cividis, AmountMap::grey}) {
    const auto table = amount_table(map);
    double before = lightness(table[0]);
    const double whole = lightness(table[255]) - before;
    EXPECT_GT(whole, 70.0);
    for (std::size_t i = 8; i < 256; i += 8) {
      const double now = lightness(table[i]);
      EXPECT_GT(now, before) << "map " << static_cast<int>(map) << " at " << i;
      EXPECT_LT(now - before, 2.5 * whole / 32.0) << "map " << static_cast<int>(map) << " at " << i;
      before = now;
    }
  }
}

TEST(ColourMap, EndsAreThePublishedOnes) {
  EXPECT_EQ(amount_colour(AmountMap::viridis, 0.0), (Colour{0x44, 0x01, 0x54}));
  EXPECT_EQ(amount_colour(AmountMap::viridis, 1.0), (Colour{0xFD, 0xE7, 0x25}));
  EXPECT_EQ(amount_colour(AmountMap::viridis, 7.0), amount_colour(AmountMap::viridis, 1.0));
  EXPECT_EQ(amount_colour(AmountMap::viridis, std::nan("")),
            amount_colour(AmountMap::viridis, 0.0));
}

TEST(ColourMap, SignedAmountsAreWhiteAtZeroAndDarkenBothWays) {
  EXPECT_EQ(signed_colour(0.0), (Colour{255, 255, 255}));
  EXPECT_EQ(signed_table()[128], (Colour{255, 255, 255}));
  for (const double sign : {-1.0, 1.0}) {
    double before = 100.5;
    for (double amount = 0.0; amount <= 1.0; amount += 0.05) {
      const double now = lightness(signed_colour(sign * amount));
      EXPECT_LT(now, before);
      before = now;
    }
  }
  // The same amount weighs about the same on both sides.
  for (double amount = 0.1; amount <= 1.0; amount += 0.1) {
    EXPECT_NEAR(lightness(signed_colour(amount)), lightness(signed_colour(-amount)), 12.0);
  }
  EXPECT_GT(signed_colour(-0.5).blue, signed_colour(-0.5).red);
  EXPECT_GT(signed_colour(0.5).red, signed_colour(0.5).blue);
}

TEST(ColourMap, TextReadsOnEveryTheme) {
  for (const Theme theme : kThemes) {
    const Palette p = palette(theme);
    EXPECT_GE(contrast(p.ink, p.paper), 7.0);
    EXPECT_GE(contrast(p.faint, p.paper), theme == Theme::high_contrast ? 7.0 : 4.5);
    for (const Colour mark : {p.retained, p.evicted, p.protected_, p.pivot})
      EXPECT_GE(contrast(mark, p.paper), theme == Theme::high_contrast ? 7.0 : 3.0);
  }
}

TEST(ColourMap, UnknownNameIsAUsageError) { EXPECT_THROW(parse_amount_map("jet"), UsageError); }

}  // namespace
}  // namespace kvloupe::figure
