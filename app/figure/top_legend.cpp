#include "app/figure/top_legend.h"

namespace kvloupe::figure {

namespace {
constexpr double margin = 2.0;  // left and right of it
constexpr double below = 4.0;     // below it
}  // namespace

void add_top_legend(Scene& scene, const DrawRequest& request, PanelGrid& grid,
                    std::span<const LegendEntry> entries) {
  if (!request.legend || entries.empty()) return;
  grid.top += below + add_legend(scene, request.style, {margin, grid.top},
                               request.width - 2.0 * margin, entries);
}

void add_top_legend(Scene& scene, const DrawRequest& request, PanelGrid& grid,
                    const std::vector<SeriesLabel>& labels) {
  if (!request.legend || labels.empty()) return;
  grid.top += below + add_series_legend(scene, request.style, {margin, grid.top},
                                      request.width - 2.0 * margin, labels);
}

}  // namespace kvloupe::figure
