#include "app/figure/panel_figure.h"

#include <algorithm>

#include "app/scene/scene.h"

namespace kvloupe::figure {

namespace {
constexpr double margin = 2.0;  // left and right of it
constexpr double below = 4.0;   // below it
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

namespace {
bool has_values(const Axis& axis) {
  return axis.meaning == AxisMeaning::value && axis.names.empty() && !axis.knee;
}

/// In the direction of the axes.
std::optional<std::pair<double, double>> around_both(const Axis& a, const Axis& b) {
  if (!has_values(a) || !has_values(b) || a.scale != b.scale) return std::nullopt;
  const auto [low, high] = std::minmax({a.first, a.last, b.first, b.last});
  return a.first <= a.last ? std::pair(low, high) : std::pair(high, low);
}
}  // namespace

void show_limits(const DrawRequest& request, PanelGrid& grid) {
  if (request.panels.size() != grid.panels.size()) return;
  for (std::size_t i = 0; i < grid.panels.size(); ++i) {
    Panel& panel = grid.panels[i];
    const PanelLimits& limits = request.panels[i];
    // A part that a person chose stays.
    if (limits.x && !request.x_range && has_values(panel.x)) panel.x.show(*limits.x);
    if (limits.y && !request.y_range && has_values(panel.y) && !panel.is_map)
      panel.y.show(*limits.y);
  }
}

PanelGrid PanelFigure::below_legend(Scene& scene, const DrawRequest& request) const {
  PanelGrid below = grid(request);
  std::visit([&](const auto& entries) { add_top_legend(scene, request, below, entries); },
             legend(request.style));
  return below;
}

double PanelFigure::natural_height(const DrawRequest& request) const {
  Scene scratch = make_scene(request.style, request.width, 100.0);
  return panels_natural_height(request.style, below_legend(scratch, request), request.width);
}

Scene PanelFigure::draw(const DrawRequest& request) const {
  Scene scene = make_scene(request.style, request.width, request.height);
  PanelGrid panels = below_legend(scene, request);
  if (shares_limits()) show_limits(request, panels);
  draw_panels(scene, request, add_panels(scene, request.style, panels));
  keep_fitting_texts(scene);
  return scene;
}

std::vector<PanelLimits> shared_limits(const std::vector<Axes>& a, const std::vector<Axes>& b) {
  if (a.size() != b.size()) return {};
  std::vector<PanelLimits> shared;
  for (std::size_t i = 0; i < a.size(); ++i)
    shared.push_back({around_both(a[i].x, b[i].x), around_both(a[i].y, b[i].y)});
  return shared;
}

}  // namespace kvloupe::figure
