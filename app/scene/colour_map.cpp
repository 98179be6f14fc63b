#include "app/scene/colour_map.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "analysis/base/core/error.h"

namespace kvloupe::figure {

namespace {

// Every fifth of the 256 published colours (viridis: van der Walt and Smith 2015, CC0; cividis:
// Nuñez, Anderton and Renslow 2018), as 0xRRGGBB; between them the path is straight enough.
constexpr std::array<std::uint32_t, 52> viridis_nodes = {
    0x440154, 0x46085C, 0x471063, 0x481769, 0x481D6F, 0x482475, 0x472A7A, 0x46307E, 0x453781,
    0x433D84, 0x414287, 0x3F4889, 0x3D4E8A, 0x3A538B, 0x38598C, 0x355E8D, 0x33638D, 0x31688E,
    0x2E6D8E, 0x2C718E, 0x2A768E, 0x297B8E, 0x27808E, 0x25848E, 0x23898E, 0x218E8D, 0x20928C,
    0x1F978B, 0x1E9C89, 0x1FA188, 0x21A585, 0x24AA83, 0x28AE80, 0x2EB37C, 0x35B779, 0x3DBC74,
    0x46C06F, 0x50C46A, 0x5AC864, 0x65CB5E, 0x70CF57, 0x7CD250, 0x89D548, 0x95D840, 0xA2DA37,
    0xB0DD2F, 0xBDDF26, 0xCAE11F, 0xD8E219, 0xE5E419, 0xF1E51D, 0xFDE725};
constexpr std::array<std::uint32_t, 52> cividis_nodes = {
    0x00224E, 0x002656, 0x002A5F, 0x002D68, 0x003070, 0x083370, 0x163770, 0x203A6F, 0x273E6E,
    0x2E416D, 0x34456C, 0x3A486C, 0x3F4C6C, 0x444F6C, 0x49536C, 0x4E566C, 0x535A6D, 0x575D6D,
    0x5C616E, 0x60646F, 0x656870, 0x696B71, 0x6D6F72, 0x727274, 0x767676, 0x7A7A78, 0x7E7D78,
    0x838179, 0x888578, 0x8D8878, 0x928C78, 0x969077, 0x9B9476, 0xA09875, 0xA59C74, 0xAAA073,
    0xAFA471, 0xB5A86F, 0xBAAC6D, 0xBFB06B, 0xC4B468, 0xC9B965, 0xCFBD62, 0xD4C15F, 0xDAC65B,
    0xDFCA57, 0xE5CF52, 0xEAD34C, 0xF0D846, 0xF6DD3F, 0xFCE236, 0xFEE838};

struct Lab {
  double l = 0.0;
  double a = 0.0;
  double b = 0.0;
};

// IEC 61966-2-1.
double linear(std::uint8_t channel) {
  const double c = channel / 255.0;
  return c <= 0.04045 ? c / 12.92 : std::pow((c + 0.055) / 1.055, 2.4);
}

std::uint8_t encode(double c) {
  c = std::clamp(c, 0.0, 1.0);
  const double s = c <= 0.0031308 ? 12.92 * c : 1.055 * std::pow(c, 1 / 2.4) - 0.055;
  return static_cast<std::uint8_t>(std::lround(s * 255.0));
}

// CIE 1976 L*a*b*, D65.
constexpr double white_x = 0.95047;
constexpr double white_z = 1.08883;

double lab_f(double t) {
  return t > 216.0 / 24389.0 ? std::cbrt(t) : (24389.0 / 27.0 * t + 16.0) / 116.0;
}

double lab_f_inverse(double t) {
  const double cube = t * t * t;
  return cube > 216.0 / 24389.0 ? cube : (116.0 * t - 16.0) * 27.0 / 24389.0;
}

Lab to_lab(Colour colour) {
  const double r = linear(colour.red);
  const double g = linear(colour.green);
  const double b = linear(colour.blue);
  const double fx = lab_f((0.4124564 * r + 0.3575761 * g + 0.1804375 * b) / white_x);
  const double fy = lab_f(0.2126729 * r + 0.7151522 * g + 0.0721750 * b);
  const double fz = lab_f((0.0193339 * r + 0.1191920 * g + 0.9503041 * b) / white_z);
  return {116.0 * fy - 16.0, 500.0 * (fx - fy), 200.0 * (fy - fz)};
}

Colour from_lab(const Lab& lab) {
  const double fy = (lab.l + 16.0) / 116.0;
  const double x = white_x * lab_f_inverse(fy + lab.a / 500.0);
  const double y = lab_f_inverse(fy);
  const double z = white_z * lab_f_inverse(fy - lab.b / 200.0);
  return {encode(3.2404542 * x - 1.5371385 * y - 0.4985314 * z),
          encode(-0.9692660 * x + 1.8760108 * y + 0.0415560 * z),
          encode(0.0556434 * x - 0.2040259 * y + 1.0572252 * z)};
}

Colour mix_lab(Colour from, Colour to, double share) {
  const Lab a = to_lab(from);
  const Lab b = to_lab(to);
  return from_lab(
      {a.l + (b.l - a.l) * share, a.a + (b.a - a.a) * share, a.b + (b.b - a.b) * share});
}

Colour from_nodes(const std::array<std::uint32_t, 52>& nodes, double share) {
  const double at = share * 51.0;
  const auto i = std::min<std::size_t>(static_cast<std::size_t>(at), 50);
  const double f = at - static_cast<double>(i);
  const auto channel = [&](int shift) {
    const double a = nodes[i] >> shift & 0xFF;
    const double b = nodes[i + 1] >> shift & 0xFF;
    return static_cast<std::uint8_t>(std::lround(a + (b - a) * f));
  };
  return {channel(16), channel(8), channel(0)};
}

}  // namespace

AmountMap parse_amount_map(std::string_view name) {
  for (const AmountMap map : {AmountMap::viridis, AmountMap::cividis, AmountMap::grey}) {
    if (amount_map_name(map) == name) return map;
  }
  throw UsageError("colour map '" + std::string(name) + "': unknown; use viridis, cividis or grey");
}

Colour amount_colour(AmountMap map, double share) {
  share = share > 0.0 ? std::min(share, 1.0) : 0.0;
  if (map != AmountMap::grey)
    return from_nodes(map == AmountMap::viridis ? viridis_nodes : cividis_nodes, share);
  // Even steps of lightness, from nearly black to nearly white.
  return from_lab({8.0 + 88.0 * share, 0.0, 0.0});
}

Colour signed_colour(double share) {
  const double amount = std::min(std::abs(share), 1.0);
  const bool negative = share < 0.0;
  const Colour middle = negative ? Colour{0x00, 0x72, 0xB2} : Colour{0xD5, 0x5E, 0x00};
  const Colour end = negative ? Colour{0x00, 0x3F, 0x66} : Colour{0x80, 0x33, 0x00};
  constexpr double knee = 0.7;  // where the named hue itself stands; beyond it, it darkens
  if (!(amount > 0.0)) return {255, 255, 255};
  if (amount < knee) return mix_lab({255, 255, 255}, middle, amount / knee);
  return mix_lab(middle, end, (amount - knee) / (1.0 - knee));
}

std::array<Colour, 256> amount_table(AmountMap map) {
  std::array<Colour, 256> table;
  for (std::size_t i = 0; i < 256; ++i)
    table[i] = amount_colour(map, static_cast<double>(i) / 255.0);
  return table;
}

std::array<Colour, 256> signed_table() {
  std::array<Colour, 256> table;
  // 255 steps, so that the 128th colour is exactly white.
  for (int i = 0; i < 256; ++i) {
    table[static_cast<std::size_t>(i)] = signed_colour(std::max(-1.0, (i - 128) / 127.0));
  }
  return table;
}

double lightness(Colour colour) { return to_lab(colour).l; }

double contrast(Colour a, Colour b) {
  const auto luminance = [](Colour c) {
    return 0.2126 * linear(c.red) + 0.7152 * linear(c.green) + 0.0722 * linear(c.blue);
  };
  const double first = luminance(a) + 0.05;
  const double second = luminance(b) + 0.05;
  return std::max(first, second) / std::min(first, second);
}

std::string_view amount_map_name(AmountMap map) {
  return map == AmountMap::viridis ? "viridis" : map == AmountMap::cividis ? "cividis" : "grey";
}

Light light_of(Colour colour) {
  static const std::array<float, 256> table = [] {
    std::array<float, 256> light{};
    for (std::size_t i = 0; i < light.size(); ++i)
      light[i] = static_cast<float>(linear(static_cast<std::uint8_t>(i)));
    return light;
  }();
  return {table[colour.red], table[colour.green], table[colour.blue]};
}

Colour colour_of(const Light& light) {
  const auto channel = [&](std::size_t i) { return encode(static_cast<double>(light[i])); };
  return {channel(0), channel(1), channel(2), 255};
}

}  // namespace kvloupe::figure
