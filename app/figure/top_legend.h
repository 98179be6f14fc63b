#pragma once
// A row of samples and names above all of a figure's panels, as wide as the page.

#include <span>
#include <vector>

#include "app/figure/figure.h"
#include "app/plot/panels.h"
#include "app/plot/series.h"

namespace kvloupe::figure {

/// Draws the legend at the top of the grid's room, and moves the panels below it. Does nothing if
/// the request has no legend or there are no entries.
void add_top_legend(Scene& scene, const DrawRequest& request, PanelGrid& grid,
                    std::span<const LegendEntry> entries);
void add_top_legend(Scene& scene, const DrawRequest& request, PanelGrid& grid,
                    const std::vector<SeriesLabel>& labels);

/// Reserves the same room without drawing: for a figure's natural height.
template <typename Entries>
void leave_room_for_legend(const DrawRequest& request, PanelGrid& grid, const Entries& entries) {
  Scene scratch = make_scene(request.style, request.width, 100.0);
  add_top_legend(scratch, request, grid, entries);
}

}  // namespace kvloupe::figure
