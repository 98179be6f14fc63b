#include "app/scene/style.h"

namespace kvloupe::figure {

std::string_view theme_name(Theme theme) {
  return theme == Theme::light ? "light" : theme == Theme::dark ? "dark" : "high-contrast";
}

std::optional<Theme> theme_named(std::string_view name) {
  for (const Theme theme : kThemes) {
    if (theme_name(theme) == name) return theme;
  }
  return std::nullopt;
}

bool has_patterns(Theme theme) { return theme == Theme::high_contrast; }

Palette palette(Theme theme) {
  struct Row {
    Colour Palette::*field;
    std::array<std::uint32_t, 3> colours;  // [themes] 0xRRGGBB
  };
  static constexpr Row kRows[] = {
      {&Palette::paper, {0xFCFCFA, 0x15181C, 0x000000}},
      {&Palette::ink, {0x1B1F24, 0xE6E8EA, 0xFFFFFF}},
      {&Palette::faint, {0x5A626B, 0x9CA4AD, 0xD8D8D8}},
      {&Palette::grid, {0xDFE2E4, 0x343940, 0x5C5C5C}},
      {&Palette::retained, {0x0072B2, 0x4FA8E0, 0x6CB8FF}},
      {&Palette::evicted, {0xD55E00, 0xF0823C, 0xFF9A3C}},
      {&Palette::protected_, {0x009E73, 0x2FC39A, 0x35E0A8}},
      {&Palette::merged, {0xCC79A7, 0xDD95BD, 0xF0A0D8}},
      {&Palette::pivot, {0x8E3F6B, 0xF3BEDB, 0xFFE6F6}},
      {&Palette::selection, {0xE69F00, 0xF2B32C, 0xFFB000}},
      {&Palette::both, {0x666666, 0xA0A0A0, 0xC4C4C4}},
      {&Palette::neither, {0xD9D9D9, 0x40444A, 0x626262}},
  };
  Palette palette;
  for (const Row& row : kRows) {
    const std::uint32_t colour = row.colours[static_cast<std::size_t>(theme)];
    const auto channel = [&](unsigned shift) {
      return static_cast<std::uint8_t>(colour >> shift & 0xFFU);
    };
    palette.*row.field = {channel(16), channel(8), channel(0)};
  }
  return palette;
}

Style make_style(const TextMetrics& fonts, Theme theme, std::optional<bool> patterns) {
  Style style{.theme = theme,
              .colours = palette(theme),
              .patterns = patterns.value_or(has_patterns(theme)),
              .fonts = &fonts};
  return style;
}

}  // namespace kvloupe::figure
