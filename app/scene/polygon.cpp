#include "app/scene/polygon.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace kvloupe::figure {

std::vector<Polyline> flatten(const Path& path, double tolerance) {
  std::vector<Polyline> lines;
  std::size_t at = 0;
  Point current;
  for (const PathVerb verb : path.verbs) {
    switch (verb) {
      case PathVerb::move:
        current = path.points[at++];
        lines.push_back({{current}, false});
        break;
      case PathVerb::line:
        current = path.points[at++];
        lines.back().points.push_back(current);
        break;
      case PathVerb::curve: {
        const Point a = path.points[at];
        const Point b = path.points[at + 1];
        const Point end = path.points[at + 2];
        at += 3;
        const double reach =
            std::max(std::hypot(current.x - 2 * a.x + b.x, current.y - 2 * a.y + b.y),
                     std::hypot(a.x - 2 * b.x + end.x, a.y - 2 * b.y + end.y));
        const int pieces =
            std::clamp(static_cast<int>(std::ceil(std::sqrt(0.75 * reach / tolerance))), 1, 200);
        for (int i = 1; i <= pieces; ++i) {
          const double t = static_cast<double>(i) / pieces;
          const double s = 1 - t;
          lines.back().points.push_back({s * s * s * current.x + 3 * s * s * t * a.x +
                                             3 * s * t * t * b.x + t * t * t * end.x,
                                         s * s * s * current.y + 3 * s * s * t * a.y +
                                             3 * s * t * t * b.y + t * t * t * end.y});
        }
        current = end;
        break;
      }
      case PathVerb::close:
        lines.back().closed = true;
        if (lines.back().points.size() > 1 &&
            lines.back().points.back() == lines.back().points.front()) {
          lines.back().points.pop_back();
        }
        current = lines.back().points.front();
        break;
    }
  }
  return lines;
}

std::vector<Polyline> dashed(const Polyline& line, const std::vector<double>& dash) {
  const double period = std::accumulate(dash.begin(), dash.end(), 0.0);
  if (dash.empty() || !(period > 0.0)) return {line};
  std::vector<Point> points = line.points;
  if (line.closed && !points.empty()) points.push_back(points.front());
  std::vector<Polyline> pieces;
  std::size_t index = 0;
  double left = dash[0];
  bool on = true;
  if (!points.empty()) pieces.push_back({{points[0]}, false});
  for (std::size_t i = 1; i < points.size(); ++i) {
    Point from = points[i - 1];
    const Point to = points[i];
    double length = std::hypot(to.x - from.x, to.y - from.y);
    while (length > left) {
      const double share = left / length;
      from = {from.x + (to.x - from.x) * share, from.y + (to.y - from.y) * share};
      if (on) {
        pieces.back().points.push_back(from);
      } else {
        pieces.push_back({{from}, false});
      }
      on = !on;
      length -= left;
      index = (index + 1) % dash.size();
      left = std::max(dash[index], 1e-3);
    }
    left -= length;
    if (on) pieces.back().points.push_back(to);
  }
  std::erase_if(pieces, [](const Polyline& p) { return p.points.size() < 2; });
  return pieces;
}

}  // namespace kvloupe::figure
