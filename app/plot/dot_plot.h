#pragma once
// Points in a plot whose axes are drawn.

#include <cstdint>
#include <span>

#include "app/plot/series.h"

namespace kvloupe::figure {

/// One mark for each point inside the plot. With `tokens` [n] (or empty) the pointer finds the
/// marks on the screen; with `targets` [n], whatever they are.
void add_dots(Scene& scene, const Style& style, const Axes& axes, std::span<const Point> data,
              const SeriesLook& look, double size = 3.0, std::span<const std::int32_t> tokens = {});
void add_dots(Scene& scene, const Style& style, const Axes& axes, std::span<const Point> data,
              const SeriesLook& look, double size, std::span<const Target> targets);

/// All values of one group as a strip of marks along the value axis, in the middle of cell `cell`
/// of the name axis, spread sideways (always in the same way) so that they do not hide each other.
/// `upright`: values along y, names along x.
void add_strip(Scene& scene, const Style& style, const Axes& axes, double cell,
               std::span<const double> values, const SeriesLook& look, bool upright = true,
               double size = 2.4);

}  // namespace kvloupe::figure
