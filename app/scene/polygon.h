#pragma once

#include <vector>

#include "app/scene/scene.h"

namespace kvloupe::figure {

/// One flattened sub-path.
struct Polyline {
  std::vector<Point> points;
  bool closed = false;
};

/// Approximates curves by lines to within `tolerance` points.
std::vector<Polyline> flatten(const Path& path, double tolerance);

/// Cuts a line into the pieces of a dash pattern; the line itself if the pattern is empty.
std::vector<Polyline> dashed(const Polyline& line, const std::vector<double>& dash);

}  // namespace kvloupe::figure
