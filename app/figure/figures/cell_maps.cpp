#include "app/figure/figures/cell_maps.h"

namespace kvloupe::figure {

namespace {
constexpr double kLeastBar = 40.0;  // points
}

bool CellMaps::has(int row, int column) const {
  return row < rows &&
         column < (present.empty() ? columns : present[static_cast<std::size_t>(row)]);
}

double CellMaps::natural_height(const DrawRequest& request) const {
  return height > 0.0 ? height : std::max(least_height, PanelFigure::natural_height(request));
}

void CellMaps::fit_colours(bool from_zero) {
  ValueRange range;
  for (const Map& map : maps) {
    for (const float value : map.values) range.add(static_cast<double>(value));
  }
  if (range.empty()) range.add(std::array{0.0, 1.0});
  colours.low = from_zero ? 0.0 : range.low;
  colours.high = range.high > colours.low ? range.high : colours.low + 1.0;
}

ColourScale CellMaps::scale(const DrawRequest& request) const {
  ColourScale scale = colours;
  scale.map = request.style.amounts;
  choose_limits(scale, request.limits, bounds);
  return scale;
}

PanelGrid CellMaps::grid(const DrawRequest& request) const {
  PanelGrid grid = shape;
  grid.right += colour_bar_width(request.style, scale(request), bar_height);
  for (const Map& map : maps)
    grid.panels.push_back(Panel{.title = map.title, .x = x, .y = y, .is_map = true});
  return grid;
}

void CellMaps::draw_panels(Scene& scene, const DrawRequest& request,
                           const std::vector<Axes>& axes) const {
  const Style& style = request.style;
  const ColourScale shown = scale(request);
  for (std::size_t m = 0; m < maps.size(); ++m) {
    const Map& map = maps[m];
    const Rect& plot = axes[m].plot;
    add_cells(scene, style, axes[m], map.values, rows, columns, shown, number, present);
    if (!map.outlined.empty()) outline_cells(scene, style, plot, map.outlined, rows, columns);
    if (!query_heads.empty()) add_query_head_regions(scene, plot, query_heads, columns);
    if (map.runs.empty()) continue;
    const auto across = static_cast<std::size_t>(columns);
    add_cell_regions(
        scene, plot, static_cast<std::size_t>(rows), across,
        [&](std::size_t r, std::size_t c) { return Target{.run = map.runs[r * across + c]}; });
  }
  const Rect all = around(axes);
  if (!bar_may_miss ||
      (all.height > kLeastBar &&
       all.right() + colour_bar_width(style, shown, all.height) <= request.width + 1.0))
    add_colour_bar(scene, style, all, shown);
}

}  // namespace kvloupe::figure
