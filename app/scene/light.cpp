#include "app/scene/light.h"

#include <algorithm>
#include <cmath>

namespace kvloupe::figure {

namespace {

// IEC 61966-2-1, as in colour_map.cpp.
std::array<float, 256> make_table() {
  std::array<float, 256> table{};
  for (std::size_t i = 0; i < table.size(); ++i) {
    const double c = static_cast<double>(i) / 255.0;
    table[i] = static_cast<float>(c <= 0.04045 ? c / 12.92 : std::pow((c + 0.055) / 1.055, 2.4));
  }
  return table;
}

std::uint8_t channel_of(float light) {
  const double c = std::clamp(static_cast<double>(light), 0.0, 1.0);
  const double s = c <= 0.0031308 ? 12.92 * c : 1.055 * std::pow(c, 1 / 2.4) - 0.055;
  return static_cast<std::uint8_t>(std::lround(s * 255.0));
}

}  // namespace

Light light_of(Colour colour) {
  static const std::array<float, 256> table = make_table();
  return {table[colour.red], table[colour.green], table[colour.blue]};
}

Colour colour_of(const Light& light) {
  return {channel_of(light[0]), channel_of(light[1]), channel_of(light[2]), 255};
}

}  // namespace kvloupe::figure
