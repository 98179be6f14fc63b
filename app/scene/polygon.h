#pragma once

#include <array>
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

/// Whether the closed polygon turns one way only, once around.
bool is_convex(const std::vector<Point>& polygon);

/// Distance of a point to the outline of a closed polygon, negative inside (non-zero winding).
double signed_distance(const std::vector<Point>& polygon, Point p);

/// A piece of a filled area between two of its edges. corners[0] to corners[1] lies on one edge,
/// corners[3] to corners[2] on the other, further right or down; the two remaining sides are
/// parallel to an axis.
struct FillPiece {
  std::array<Point, 4> corners;
};

/// The area that sub-paths fill together under the rule of Scene::Path, non-zero winding: PDF and
/// SVG fill a whole path by it, a list of polygons must be made for the screen.
struct WindingFill {
  /// Sub-paths that are convex and may be filled each by itself.
  std::vector<std::size_t> alone;
  /// The area of all others. No two pieces overlap.
  std::vector<FillPiece> pieces;
};

/// `opaque`: whether painting a place twice looks like painting it once. Sub-paths count as closed.
/// O(n log n) for sub-paths that do not cross; every crossing adds to it.
WindingFill winding_fill(const std::vector<Polyline>& lines, bool opaque);

}  // namespace kvloupe::figure
