#pragma once

#include <array>
#include <vector>

#include "app/scene/polygon.h"

namespace kvloupe::figure {

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
