// Colours as people with a colour-vision deficiency see them: simulated after Machado, Oliveira and
// Fernandes, "A Physiologically-based Model for Simulation of Color Vision Deficiency" (2009), full
// severity, on linear RGB.

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <string>
#include <vector>

#include "app/plot/series.h"
#include "app/scene/colour_map.h"
#include "app/scene/style.h"

namespace kvloupe::figure {
namespace {

using Vector = std::array<double, 3>;
using Transform = std::array<Vector, 3>;

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
  Style style;
  style.theme = GetParam();
  style.colours = palette(GetParam());
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
