#pragma once
// Box plots: median, quartiles, and whiskers to the last value within 1.5 interquartile ranges
// (Tukey), in a plot whose axes are drawn.

#include <span>
#include <vector>

#include "app/plot/series.h"

namespace kvloupe::figure {

struct BoxNumbers {
  double low = 0.0;  // whiskers' ends
  double first_quartile = 0.0;
  double median = 0.0;
  double third_quartile = 0.0;
  double high = 0.0;
  std::vector<double> outliers;
  std::size_t count = 0;  // of finite values; 0: the other fields have no meaning
};
/// Quartiles by linear interpolation between the order statistics (R's type 7). Values that are not
/// finite are left out.
BoxNumbers box_numbers(std::span<const double> values);
/// The value below which a share of the finite values lies, interpolated as above; NaN for none.
double quantile(std::span<const double> values, double share);

/// One box at the middle of cell `cell` of the name axis. `upright`: values along y.
void add_box(Scene& scene, const Style& style, const Axes& axes, double cell,
             const BoxNumbers& numbers, const SeriesLook& look, bool upright = true);

}  // namespace kvloupe::figure
