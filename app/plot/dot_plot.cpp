#include "app/plot/dot_plot.h"

#include <cmath>
#include <utility>
#include <vector>

namespace kvloupe::figure {

namespace {

bool drawable(const Axis& axis, double value) {
  return std::isfinite(value) && (axis.scale == AxisScale::linear || value > 0.0);
}

/// 0.5 ± 0.28: the golden ratio's multiples, which fill an interval evenly whatever their number.
double sideways(std::size_t i) {
  const double turn = static_cast<double>(i + 1) * 0.61803398874989485;
  return 0.5 + 0.56 * (turn - std::floor(turn) - 0.5);
}

/// The marks inside the plot, each with its own of `found`, if there are any.
template <typename Found>
void add_marks_at(Scene& scene, const Style& style, const Axes& axes, std::span<const Point> data,
                  const SeriesLook& look, double size, std::span<const Found> found,
                  std::vector<Found> PickPoints::*kept) {
  std::vector<Point> points;
  PickPoints pick;
  for (std::size_t i = 0; i < data.size(); ++i) {
    if (!drawable(axes.x, data[i].x) || !drawable(axes.y, data[i].y)) continue;
    const Point at = axes.to_page(data[i].x, data[i].y);
    if (!axes.plot.contains(at)) continue;
    points.push_back(at);
    if (i < found.size()) {
      pick.points.push_back(at);
      (pick.*kept).push_back(found[i]);
    }
  }
  if (!pick.points.empty()) scene.point_sets.push_back(std::move(pick));
  if (!points.empty()) scene.add(series_marks(style, look, size, std::move(points)));
}

}  // namespace

void add_dots(Scene& scene, const Style& style, const Axes& axes, std::span<const Point> data,
              const SeriesLook& look, double size, std::span<const std::int32_t> tokens) {
  add_marks_at(scene, style, axes, data, look, size, tokens, &PickPoints::tokens);
}

void add_dots(Scene& scene, const Style& style, const Axes& axes, std::span<const Point> data,
              const SeriesLook& look, double size, std::span<const Target> targets) {
  add_marks_at(scene, style, axes, data, look, size, targets, &PickPoints::targets);
}

void add_strip(Scene& scene, const Style& style, const Axes& axes, double cell,
               std::span<const double> values, const SeriesLook& look, bool upright, double size) {
  std::vector<Point> points;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (!drawable(upright ? axes.y : axes.x, values[i])) continue;
    const double beside = cell + sideways(i);
    const Point at = upright ? axes.to_page(beside, values[i]) : axes.to_page(values[i], beside);
    if (axes.plot.contains(at)) points.push_back(at);
  }
  if (!points.empty()) scene.add(series_marks(style, look, size, std::move(points)));
}

}  // namespace kvloupe::figure
