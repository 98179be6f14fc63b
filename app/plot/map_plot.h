#pragma once

#include "app/plot/frame.h"

namespace kvloupe::figure {

/// A heat map with vector axes and a colour bar at its right, in a scene of width × height.
struct MapPlot {
  Axis x = {};
  Axis y = {};
  ColourScale scale = {};
  double aspect = 1.0;  // width / height of the map itself; 0: fills the room
  double top = 3.0;     // room above the map
  double left = 2.0;    // outer margins
  double right = 2.0;
  double bottom = 2.0;
  bool colour_bar = true;
  double strip = 0.0;  // height of the strip in the room above (map_margin.h)
  double inset = 0.0;  // room between the y axis and the map, for columns that have the axis
};

/// The place of the map: as large as the room allows, with its aspect, and with its axes and bar
/// centred in the width.
Rect map_rect(const Style& style, const MapPlot& plot, double width, double height);

/// The height at which the map fills the width.
double map_natural_height(const Style& style, const MapPlot& plot, double width);

/// Adds the image over `covers` (data ranges of its edges: x from, x to, y from, y to), clipped to
/// the map, then axes and bar.
void add_map(Scene& scene, const Style& style, const MapPlot& plot, const Rect& rect,
             std::shared_ptr<const Pixels> pixels, const std::array<double, 4>& covers);

}  // namespace kvloupe::figure
