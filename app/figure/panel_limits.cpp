#include "app/figure/panel_limits.h"

#include <algorithm>

namespace kvloupe::figure {

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

std::vector<PanelLimits> shared_limits(const std::vector<Axes>& a, const std::vector<Axes>& b) {
  if (a.size() != b.size()) return {};
  std::vector<PanelLimits> shared;
  for (std::size_t i = 0; i < a.size(); ++i)
    shared.push_back({around_both(a[i].x, b[i].x), around_both(a[i].y, b[i].y)});
  return shared;
}

}  // namespace kvloupe::figure
