#pragma once

#include <string_view>

namespace kvloupe::figure {

inline constexpr double kPointsPerMillimetre = 72.0 / 25.4;

/// A figure's outer size.
struct PageSize {
  double width = 0.0;   // points
  double height = 0.0;  // points
  /// Pixels of a PNG per point: 300 dpi on paper; sizes in pixels are read at 192 dpi, so that 8 pt
  /// text is 21 pixels high on a slide of 1600 × 900.
  double pixels_per_point = 300.0 / 72.0;
  bool in_pixels = false;
  bool operator==(const PageSize&) const = default;
};

/// "85x60mm" or "1600x900px" (× works too). Throws UsageError naming the problem: sides from 20 mm
/// (200 px) to 1000 mm (16 000 px).
PageSize parse_page_size(std::string_view text);

}  // namespace kvloupe::figure
