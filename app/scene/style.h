#pragma once
// Common to every figure: themes, the meaning of colours, sizes of text and lines.

#include <array>
#include <optional>
#include <string_view>

#include "app/scene/colour_map.h"
#include "app/scene/scene.h"
#include "app/scene/text_metrics.h"

namespace kvloupe::figure {

/// High contrast: white and bright colours on black; each text has at least 7 : 1.
enum class Theme { light, dark, high_contrast };

/// In the order of menus.
inline constexpr std::array kThemes = {Theme::light, Theme::dark, Theme::high_contrast};
/// "light", "dark" or "high-contrast", as options and files have it.
std::string_view theme_name(Theme theme);
/// The theme of a name; nothing for any other word.
std::optional<Theme> theme_named(std::string_view name);
/// The default: whether patterns are drawn in addition to the colours of fates.
bool has_patterns(Theme theme);

/// Each colour means the same thing everywhere (Okabe–Ito). The dark themes have the same hues,
/// lighter where contrast needs it.
struct Palette {
  Colour paper;
  Colour ink;       // text, axes
  Colour faint;     // secondary text; still 4.5 : 1 on paper, 7 : 1 in high contrast
  Colour grid;      // hairlines
  Colour retained;  // and policy A
  Colour evicted;   // and policy B
  Colour protected_;
  Colour merged;
  Colour pivot;
  Colour selection;
  Colour neither;  // kept by neither policy
  Colour both;
};
Palette palette(Theme theme);

struct Style {
  Theme theme = Theme::light;
  Palette colours = palette(Theme::light);
  AmountMap amounts = AmountMap::viridis;
  bool patterns = false;               // lines and dots beside the colours of fates
  double text = 8.0;                   // points; axis names, labels
  double small = 7.0;                  // tick labels, notes
  double line = 0.6;                   // axes and ticks
  const TextMetrics* fonts = nullptr;  // never null if something is drawn
};
/// `patterns`: absent, as the theme has it.
Style make_style(const TextMetrics& fonts, Theme theme = Theme::light,
                 std::optional<bool> patterns = std::nullopt);

}  // namespace kvloupe::figure
