#include "app/scene/style.h"

namespace kvloupe::figure {

std::string_view theme_name(Theme theme) {
  switch (theme) {
    case Theme::light:
      return "light";
    case Theme::dark:
      return "dark";
    case Theme::high_contrast:
      break;
  }
  return "high-contrast";
}

std::optional<Theme> theme_named(std::string_view name) {
  for (const Theme theme : kThemes) {
    if (theme_name(theme) == name) return theme;
  }
  return std::nullopt;
}

bool has_patterns(Theme theme) { return theme == Theme::high_contrast; }

Palette palette(Theme theme) {
  Palette p;
  if (theme == Theme::light) {
    p.paper = {0xFC, 0xFC, 0xFA};
    p.ink = {0x1B, 0x1F, 0x24};
    p.faint = {0x5A, 0x62, 0x6B};
    p.grid = {0xDF, 0xE2, 0xE4};
    p.retained = {0x00, 0x72, 0xB2};
    p.evicted = {0xD5, 0x5E, 0x00};
    p.protected_ = {0x00, 0x9E, 0x73};
    p.merged = {0xCC, 0x79, 0xA7};
    p.pivot = {0x8E, 0x3F, 0x6B};
    p.selection = {0xE6, 0x9F, 0x00};
    p.both = {0x66, 0x66, 0x66};
    p.neither = {0xD9, 0xD9, 0xD9};
  } else if (theme == Theme::dark) {
    p.paper = {0x15, 0x18, 0x1C};
    p.ink = {0xE6, 0xE8, 0xEA};
    p.faint = {0x9C, 0xA4, 0xAD};
    p.grid = {0x34, 0x39, 0x40};
    p.retained = {0x4F, 0xA8, 0xE0};
    p.evicted = {0xF0, 0x82, 0x3C};
    p.protected_ = {0x2F, 0xC3, 0x9A};
    p.merged = {0xDD, 0x95, 0xBD};
    p.pivot = {0xF3, 0xBE, 0xDB};
    p.selection = {0xF2, 0xB3, 0x2C};
    p.both = {0xA0, 0xA0, 0xA0};
    p.neither = {0x40, 0x44, 0x4A};
  } else {
    p.paper = {0x00, 0x00, 0x00};
    p.ink = {0xFF, 0xFF, 0xFF};
    p.faint = {0xD8, 0xD8, 0xD8};
    p.grid = {0x5C, 0x5C, 0x5C};
    p.retained = {0x6C, 0xB8, 0xFF};
    p.evicted = {0xFF, 0x9A, 0x3C};
    p.protected_ = {0x35, 0xE0, 0xA8};
    p.merged = {0xF0, 0xA0, 0xD8};
    p.pivot = {0xFF, 0xE6, 0xF6};
    p.selection = {0xFF, 0xB0, 0x00};
    p.both = {0xC4, 0xC4, 0xC4};
    p.neither = {0x62, 0x62, 0x62};
  }
  return p;
}

Style make_style(const TextMetrics& fonts, Theme theme, std::optional<bool> patterns) {
  Style style{.theme = theme,
              .colours = palette(theme),
              .patterns = patterns.value_or(has_patterns(theme)),
              .fonts = &fonts};
  return style;
}

}  // namespace kvloupe::figure
