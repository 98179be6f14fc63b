#pragma once
// Dots on maps of heads: how much attention reads the followed tokens. Their area says how much.

#include "app/plot/frame.h"

namespace kvloupe::figure {

/// A head that reads less gets no dot.
inline constexpr double kLeastRead = 0.01;

/// The diameter in points of a dot for a share of attention, where `largest` stands for all of it;
/// 0: too small to be seen.
double read_dot_size(double read, double largest);

/// The room above a map that the legend takes, points.
inline constexpr double kReadLegendRoom = 16.0;

/// Sample dots with their shares, from `x` on, at the top of the page; a label without room is left
/// out.
void add_read_legend(Scene& scene, const Style& style, double x, double largest);

}  // namespace kvloupe::figure
