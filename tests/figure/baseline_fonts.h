#pragma once

#include <cmath>

#include "app/scene/text_metrics.h"

namespace kvloupe::test {

/// Whether texts are as wide as where the baselines were written: Debian 12, with its packages
/// fonts-inter (4.0~beta7) and FreeType. Other versions move labels by fractions of a point, and
/// panels with them.
inline bool has_fonts_of_the_baselines(const figure::TextMetrics& fonts) {
  constexpr double kWidth = 1333.806818;  // at 100 points
  return std::abs(fonts.width("Mean rank (1 is best) 0.25 %", figure::Font::regular, 100.0) -
                  kWidth) < 0.1;
}

inline constexpr const char* kOtherFonts =
    "fonts-inter has another version than where the baselines were written, Debian 12";

}  // namespace kvloupe::test
