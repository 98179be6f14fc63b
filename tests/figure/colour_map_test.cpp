#include "app/scene/colour_map.h"
#include "app/plot/cell_map.h"
#include "app/plot/series.h"
#include "app/scene/style.h"
#include "tests/support/test.h"

namespace kvloupe::figure {
namespace {

using Vector = std::array<double, 3>;
using Transform = std::array<Vector, 3>;

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

// Cells that share a pixel: the light of the picture is that of the cells, at every size.

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
      area[place.pixel] += one * place.here;
      area[static_cast<std::size_t>(place.pixel) + 1] += one * (1.0 - place.here);
    }
    for (int x = 0; x < pixels; ++x) EXPECT_NEAR(area[x], 1.0, 1e-4) << count << " " << pixels;
    EXPECT_NEAR(area.back(), 0.0, 1e-4);
  }
}

TEST(BlendCells, APixelThatHoldsOneCellHasItsColour) {
  const std::array colours{Colour{1, 2, 3, 255}, Colour{0, 114, 178, 255}, Colour{250, 9, 99, 255}};
  const auto of = [&](int row, int column) { return colours[(row + column) % 3]; };
  const auto pixels = blend_cells({2, 6, 3, 8}, 500, 500, of);
  ASSERT_EQ(pixels->width, 5);
  ASSERT_EQ(pixels->height, 4);
  for (const auto& [y, x] : test::cells(4, 5)) {
    const std::uint8_t* p = &pixels->rgba[4 * (y * 5 + x)];
    EXPECT_EQ((Colour{p[0], p[1], p[2], p[3]}), of(2 + y, 3 + x)) << x << " " << y;
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
      const Light light = light_of(colours[one]);
      for (std::size_t c = 0; c < 3; ++c)
        expected[c] += light[c] / static_cast<double>(fates.size());
    }
    for (const auto& [width, height] : {std::pair{320, 90}, {320, 37}, {33, 2}, {1500, 60}}) {
      const auto pixels = blend_cells({0, kRows, 0, kTokens}, width, height, [&](int row, int t) {
        return colours[fates[row * kTokens + t]];
      });
      ASSERT_EQ(pixels->width, width);
      ASSERT_EQ(pixels->height, height);
      const std::array<double, 3> found = mean_light(*pixels);
      for (std::size_t c = 0; c < 3; ++c) EXPECT_NEAR(found[c], expected[c], 0.002);
    }
  }
}

// Colours as people with a colour-vision deficiency see them: simulated after Machado, Oliveira and
// Fernandes, "A Physiologically-based Model for Simulation of Color Vision Deficiency" (2009), full
// severity, on linear RGB.

struct Vision {
  const char* name;
  Transform transform;
};
const Vision visions[] = {
    {"normal", {{{1, 0, 0}, {0, 1, 0}, {0, 0, 1}}}},
    {"protanopia",
     {{{0.152286, 1.052583, -0.204868},
       {0.114503, 0.786281, 0.099216},
       {-0.003882, -0.048116, 1.051998}}}},
    {"deuteranopia",
     {{{0.367322, 0.860646, -0.227968},
       {0.280085, 0.672501, 0.047413},
       {-0.011820, 0.042940, 0.968881}}}},
    {"tritanopia",
     {{{1.255528, -0.076749, -0.178779},
       {-0.078411, 0.930809, 0.147602},
       {0.004733, 0.691367, 0.303900}}}},
};

Vector times(const Transform& m, const Vector& v) {
  Vector out{};
  for (std::size_t i = 0; i < 3; ++i) out[i] = m[i][0] * v[0] + m[i][1] * v[1] + m[i][2] * v[2];
  return out;
}

Vector seen_linear(Colour colour, const Vision& vision) {
  const auto linear = [](std::uint8_t value) {
    const double c = value / 255.0;
    return c <= 0.04045 ? c / 12.92 : std::pow((c + 0.055) / 1.055, 2.4);
  };
  Vector rgb =
      times(vision.transform, {linear(colour.red), linear(colour.green), linear(colour.blue)});
  for (double& c : rgb) c = std::min(1.0, std::max(0.0, c));
  return rgb;
}

/// CIE L*a*b*, D65.
Vector lab(const Vector& linear) {
  const Vector xyz = times({{{0.4124564, 0.3575761, 0.1804375},
                             {0.2126729, 0.7151522, 0.0721750},
                             {0.0193339, 0.1191920, 0.9503041}}},
                           linear);
  const auto f = [](double t) {
    return t > 216.0 / 24389.0 ? std::cbrt(t) : (24389.0 / 27.0 * t + 16.0) / 116.0;
  };
  const double x = f(xyz[0] / 0.95047);
  const double y = f(xyz[1]);
  const double z = f(xyz[2] / 1.08883);
  return {116.0 * y - 16.0, 500.0 * (x - y), 200.0 * (y - z)};
}

/// CIE 1976 colour difference; 2.3 is just noticeable.
double difference(Colour a, Colour b, const Vision& vision) {
  const Vector p = lab(seen_linear(a, vision));
  const Vector q = lab(seen_linear(b, vision));
  return std::sqrt((p[0] - q[0]) * (p[0] - q[0]) + (p[1] - q[1]) * (p[1] - q[1]) +
                   (p[2] - q[2]) * (p[2] - q[2]));
}

void expect_apart(const std::vector<std::pair<std::string, Colour>>& colours, double least) {
  for (const Vision& vision : visions) {
    for (std::size_t i = 0; i < colours.size(); ++i) {
      for (std::size_t j = i + 1; j < colours.size(); ++j) {
        EXPECT_GE(difference(colours[i].second, colours[j].second, vision), least)
            << colours[i].first << " and " << colours[j].first << ", " << vision.name;
      }
    }
  }
}

TEST(ColourBlind, TheSimulationIsWhatIsPublished) {
  // Rows sum to 1: greys stay grey. Red and green of equal lightness come together for deutans.
  for (const Vision& vision : visions) {
    for (const Vector& row : vision.transform)
      EXPECT_NEAR(row[0] + row[1] + row[2], 1.0, 2e-6) << vision.name;
    EXPECT_LT(difference({128, 128, 128}, {128, 128, 128}, vision), 1e-9);
  }
  const Colour red{200, 60, 60};
  const Colour green{95, 120, 40};
  EXPECT_GT(difference(red, green, visions[0]), 70.0);
  EXPECT_LT(difference(red, green, visions[2]), 25.0);
  // Black to white is 100 in every vision.
  for (const Vision& vision : visions)
    EXPECT_NEAR(difference({0, 0, 0}, {255, 255, 255}, vision), 100.0, 0.1) << vision.name;
}

class ColourBlindTheme : public ::testing::TestWithParam<Theme> {};

TEST_P(ColourBlindTheme, FatesAndPoliciesAreToldApart) {
  const Palette c = palette(GetParam());
  const double least = 10.0;  // four times what is just noticeable
  expect_apart({{"retained", c.retained},
                {"evicted", c.evicted},
                {"protected", c.protected_},
                {"merged", c.merged}},
               least);
  expect_apart(
      {{"A only", c.retained}, {"B only", c.evicted}, {"both", c.both}, {"neither", c.neither}},
      20.0);
  expect_apart({{"merged", c.merged}, {"pivot", c.pivot}}, least);
}

TEST_P(ColourBlindTheme, SeriesAreToldApart) {
  Style style{.theme = GetParam(), .colours = palette(GetParam())};
  std::vector<std::pair<std::string, Colour>> colours;
  for (int i = 0; i < kSeriesLooks; ++i) {
    const SeriesLook look = series_look(style, i);
    if (i < kSeriesColours) colours.emplace_back("series " + std::to_string(i), look.colour);
    EXPECT_GE(contrast(look.colour, style.colours.paper), 2.0) << i;
    // And without any colour: no two looks share dash, mark and filling. Of two with the same
    // colour and dash, where a line has no marks, one is thinner, in the first two rounds.
    for (int j = 0; j < i; ++j) {
      const SeriesLook other = series_look(style, j);
      EXPECT_FALSE(look.dash == other.dash && look.shape == other.shape &&
                   look.filled == other.filled)
          << i << " and " << j;
      if (i < 2 * kSeriesColours && look.colour == other.colour) {
        EXPECT_LT(look.width, 0.7 * other.width) << i << " and " << j;
      }
    }
  }
  expect_apart(colours, 9.0);
}

INSTANTIATE_TEST_SUITE_P(Every, ColourBlindTheme, ::testing::ValuesIn(kThemes),
                         [](const auto& test) {
                           return test.param == Theme::light  ? "light"
                                  : test.param == Theme::dark ? "dark"
                                                              : "high_contrast";
                         });

TEST(ColourBlind, AmountsKeepTheirOrder) {
  // Lightness rises along each map of amounts in every vision, and 16 steps along it are all seen.
  for (const AmountMap map : {AmountMap::viridis, AmountMap::cividis, AmountMap::grey}) {
    for (const Vision& vision : visions) {
      double before = -1.0;
      Colour last = amount_colour(map, 0.0);
      for (int i = 0; i <= 16; ++i) {
        const Colour colour = amount_colour(map, i / 16.0);
        const double now = lab(seen_linear(colour, vision))[0];
        EXPECT_GT(now, before) << vision.name << " at " << i;
        before = now;
        if (i > 0) {
          EXPECT_GE(difference(last, colour, vision), 2.3) << vision.name << " at " << i;
        }
        last = colour;
      }
    }
  }
}

TEST(ColourBlind, SignsAreToldApart) {
  for (const Vision& vision : visions) {
    for (const double amount : {0.25, 0.5, 1.0}) {
      EXPECT_GE(difference(signed_colour(-amount), signed_colour(amount), vision), 60.0 * amount)
          << vision.name << " at ±" << amount;
    }
    EXPECT_LT(difference(signed_colour(0.0), {255, 255, 255}, vision), 3.0);
  }
}

}  // namespace
}  // namespace kvloupe::figure
