#pragma once
// Common to every figure: themes, the meaning of colours, sizes of text and lines.

#include "app/scene/colour_map.h"
#include "app/scene/scene.h"
#include "app/scene/text_metrics.h"

namespace kvloupe::figure {

enum class Theme { light, dark };

/// Each colour means the same thing everywhere (Okabe–Ito). The dark theme has the same hues,
/// lighter where contrast needs it.
struct Palette {
  Colour paper;
  Colour ink;       // text, axes
  Colour faint;     // secondary text; still 4.5 : 1 on paper
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
  double text = 8.0;                   // points; axis names, labels
  double small = 7.0;                  // tick labels, notes
  double line = 0.6;                   // axes and ticks
  const TextMetrics* fonts = nullptr;  // never null if something is drawn
};
Style make_style(const TextMetrics& fonts, Theme theme = Theme::light);

}  // namespace kvloupe::figure
