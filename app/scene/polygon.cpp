#include "app/scene/polygon.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <utility>

namespace kvloupe::figure {

namespace {

double cross(Point o, Point a, Point b) {
  return (a.x - o.x) * (b.y - o.y) - (a.y - o.y) * (b.x - o.x);
}

}  // namespace

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

bool is_convex(const std::vector<Point>& polygon) {
  int turning = 0;
  int heading = 0;  // to the left or the right
  int reversals = 0;
  const std::size_t n = polygon.size();
  if (n < 4) return true;
  // Once around and one edge more, so that the last heading meets the first.
  for (std::size_t i = 0; i <= n; ++i) {
    const Point a = polygon[i % n];
    const Point b = polygon[(i + 1) % n];
    const double turn = cross(a, b, polygon[(i + 2) % n]);
    if (turn != 0.0) {
      const int now = turn > 0 ? 1 : -1;
      if (turning != 0 && now != turning) return false;
      turning = now;
    }
    if (b.x != a.x) {
      const int now = b.x > a.x ? 1 : -1;
      if (heading != 0 && now != heading) ++reversals;
      heading = now;
    }
  }
  return reversals <= 2;  // a star also turns one way only, but more than once around
}

double signed_distance(const std::vector<Point>& polygon, Point p) {
  double nearest = std::numeric_limits<double>::infinity();
  int winding = 0;
  for (std::size_t i = 0; i < polygon.size(); ++i) {
    const Point a = polygon[i];
    const Point b = polygon[(i + 1) % polygon.size()];
    const double dx = b.x - a.x;
    const double dy = b.y - a.y;
    const double length2 = dx * dx + dy * dy;
    const double t =
        length2 > 0 ? std::clamp(((p.x - a.x) * dx + (p.y - a.y) * dy) / length2, 0.0, 1.0) : 0.0;
    nearest = std::min(nearest, std::hypot(a.x + t * dx - p.x, a.y + t * dy - p.y));
    if (a.y <= p.y) {
      if (b.y > p.y && cross(a, b, p) > 0) ++winding;
    } else if (b.y <= p.y && cross(a, b, p) < 0) {
      --winding;
    }
  }
  return winding != 0 ? -nearest : nearest;
}

namespace {

constexpr double grid = 1e-5;  // points; what is nearer than this is one place

double snapped(double value) { return std::round(value / grid) * grid; }

double signed_area(const std::vector<Point>& polygon) {
  double area = 0.0;
  for (std::size_t i = 0; i < polygon.size(); ++i) {
    const Point a = polygon[i];
    const Point b = polygon[(i + 1) % polygon.size()];
    area += a.x * b.y - b.x * a.y;
  }
  return area / 2;
}

struct Box {
  double left = 0, top = 0, right = 0, bottom = 0;
};

Box box_of(const std::vector<Point>& points) {
  Box box{points[0].x, points[0].y, points[0].x, points[0].y};
  for (const Point p : points) {
    box.left = std::min(box.left, p.x);
    box.right = std::max(box.right, p.x);
    box.top = std::min(box.top, p.y);
    box.bottom = std::max(box.bottom, p.y);
  }
  return box;
}

/// Sub-paths whose boxes overlap, directly or through others, are one group.
std::vector<std::vector<std::size_t>> groups_of(const std::vector<Polyline>& lines) {
  std::vector<std::size_t> order;
  std::vector<Box> boxes(lines.size());
  std::vector<std::size_t> parent(lines.size());
  std::iota(parent.begin(), parent.end(), std::size_t{0});
  for (std::size_t i = 0; i < lines.size(); ++i) {
    if (lines[i].points.size() < 3) continue;
    boxes[i] = box_of(lines[i].points);
    order.push_back(i);
  }
  const auto root = [&](std::size_t i) {
    while (parent[i] != i) i = parent[i] = parent[parent[i]];
    return i;
  };
  std::vector<std::size_t> by_left = order;
  std::sort(by_left.begin(), by_left.end(),
            [&](std::size_t a, std::size_t b) { return boxes[a].left < boxes[b].left; });
  std::vector<std::size_t> open;
  for (const std::size_t i : by_left) {
    std::erase_if(open, [&](std::size_t j) { return boxes[j].right <= boxes[i].left + grid; });
    for (const std::size_t j : open) {
      if (boxes[j].top < boxes[i].bottom - grid && boxes[i].top < boxes[j].bottom - grid)
        parent[root(i)] = root(j);
    }
    open.push_back(i);
  }
  std::map<std::size_t, std::vector<std::size_t>> groups;
  for (const std::size_t i : order) groups[root(i)].push_back(i);
  std::vector<std::vector<std::size_t>> out;
  for (auto& [first, group] : groups) out.push_back(std::move(group));
  return out;
}

/// Whether filling each sub-path by itself, one upon the other, fills the same.
bool fill_alone(const std::vector<Polyline>& lines, const std::vector<std::size_t>& group,
                bool opaque) {
  const bool convex = std::all_of(group.begin(), group.end(),
                                  [&](std::size_t i) { return is_convex(lines[i].points); });
  if (!convex || group.size() == 1) return convex;
  const bool first = signed_area(lines[group[0]].points) > 0;
  return opaque && std::all_of(group.begin(), group.end(), [&](std::size_t i) {
           return (signed_area(lines[i].points) > 0) == first;
         });
}

/// An edge in the direction of the sweep, v; u lies across.
struct Edge {
  double u0 = 0, v0 = 0, u1 = 0, v1 = 0;  // v0 < v1
  int winding = 0;
  double u_at(double v) const {
    if (v <= v0) return u0;
    if (v >= v1) return u1;
    return u0 + (u1 - u0) * (v - v0) / (v1 - v0);
  }
};

/// Cuts the area into pieces between consecutive levels of v, and joins pieces that follow one
/// another between the same two edges.
class Sweep {
 public:
  Sweep(const std::vector<Polyline>& lines, const std::vector<std::size_t>& group, bool along_x)
      : along_x_(along_x) {
    for (const std::size_t line : group) {
      const std::vector<Point>& points = lines[line].points;
      for (std::size_t i = 0; i < points.size(); ++i)
        add(points[i], points[(i + 1) % points.size()]);
    }
    std::sort(edges_.begin(), edges_.end(),
              [](const Edge& a, const Edge& b) { return a.v0 < b.v0; });
    std::sort(levels_.begin(), levels_.end());
    levels_.erase(std::unique(levels_.begin(), levels_.end()), levels_.end());
  }

  /// How many edges all levels meet: the work to do.
  std::size_t work() const {
    std::size_t sum = 0;
    for (const Edge& edge : edges_) {
      sum += static_cast<std::size_t>(std::lower_bound(levels_.begin(), levels_.end(), edge.v1) -
                                      std::lower_bound(levels_.begin(), levels_.end(), edge.v0));
    }
    return sum;
  }

  void run(std::vector<FillPiece>& out) {
    std::vector<std::size_t> active;
    std::size_t next = 0;
    for (std::size_t i = 0; i + 1 < levels_.size(); ++i) {
      const double from = levels_[i];
      const double to = levels_[i + 1];
      std::erase_if(active, [&](std::size_t e) { return edges_[e].v1 <= from; });
      while (next < edges_.size() && edges_[next].v0 <= from) active.push_back(next++);
      double start = from;
      for (const double crossing : crossings(active, from, to)) {
        slab(active, start, crossing, out);
        start = crossing;
      }
      slab(active, start, to, out);
    }
    for (const auto& [pair, start] : open_) emit(pair, start, levels_.back(), out);
  }

 private:
  using Pair = std::pair<std::size_t, std::size_t>;

  void add(Point a, Point b) {
    if (along_x_) {
      std::swap(a.x, a.y);
      std::swap(b.x, b.y);
    }
    Edge edge{snapped(a.x), snapped(a.y), snapped(b.x), snapped(b.y), 1};
    levels_.push_back(edge.v0);
    if (edge.v0 == edge.v1) return;
    if (edge.v0 > edge.v1) edge = {edge.u1, edge.v1, edge.u0, edge.v0, -1};
    edges_.push_back(edge);
  }

  /// The levels at which edges cross between two levels, in order.
  std::vector<double> crossings(std::vector<std::size_t>& active, double from, double to) const {
    std::sort(active.begin(), active.end(), [&](std::size_t a, std::size_t b) {
      return std::pair(edges_[a].u_at(from), edges_[a].u_at(to)) <
             std::pair(edges_[b].u_at(from), edges_[b].u_at(to));
    });
    const auto crossed = [&](std::size_t a, std::size_t b) {
      return edges_[a].u_at(to) > edges_[b].u_at(to) + grid;
    };
    std::vector<double> found;
    if (std::adjacent_find(active.begin(), active.end(), crossed) == active.end()) return found;
    for (std::size_t i = 0; i < active.size(); ++i) {
      for (std::size_t j = i + 1; j < active.size(); ++j) {
        const Edge& a = edges_[active[i]];
        const Edge& b = edges_[active[j]];
        const double before = b.u_at(from) - a.u_at(from);
        const double after = a.u_at(to) - b.u_at(to);
        if (before < 0 || after <= grid) continue;
        const double v = from + (to - from) * before / (before + after);
        if (v > from + grid && v < to - grid) found.push_back(v);
      }
    }
    std::sort(found.begin(), found.end());
    found.erase(
        std::unique(found.begin(), found.end(), [](double a, double b) { return b - a < grid; }),
        found.end());
    return found;
  }

  /// Between two levels without a crossing.
  void slab(std::vector<std::size_t>& active, double from, double to, std::vector<FillPiece>& out) {
    const double middle = (from + to) / 2;
    std::sort(active.begin(), active.end(), [&](std::size_t a, std::size_t b) {
      return edges_[a].u_at(middle) < edges_[b].u_at(middle);
    });
    std::map<Pair, double> now;
    int winding = 0;
    std::size_t left = 0;
    for (const std::size_t e : active) {
      if (winding == 0) left = e;
      winding += edges_[e].winding;
      if (winding != 0) continue;
      if (edges_[e].u_at(middle) - edges_[left].u_at(middle) < grid) continue;
      const auto before = open_.find({left, e});
      now[{left, e}] = before == open_.end() ? from : before->second;
      if (before != open_.end()) open_.erase(before);
    }
    for (const auto& [pair, start] : open_) emit(pair, start, from, out);
    open_ = std::move(now);
  }

  void emit(const Pair& pair, double from, double to, std::vector<FillPiece>& out) const {
    const Edge& left = edges_[pair.first];
    const Edge& right = edges_[pair.second];
    const auto point = [&](const Edge& edge, double v) {
      const double u = edge.u_at(v);
      return along_x_ ? Point{v, u} : Point{u, v};
    };
    out.push_back({{point(left, from), point(left, to), point(right, to), point(right, from)}});
  }

  bool along_x_;
  std::vector<Edge> edges_;      // by v0
  std::vector<double> levels_;   // every v of a corner
  std::map<Pair, double> open_;  // two edges with area between them, and since where
};

}  // namespace

WindingFill winding_fill(const std::vector<Polyline>& lines, bool opaque) {
  WindingFill fill;
  for (const std::vector<std::size_t>& group : groups_of(lines)) {
    if (fill_alone(lines, group, opaque)) {
      fill.alone.insert(fill.alone.end(), group.begin(), group.end());
      continue;
    }
    Sweep down(lines, group, false);
    Sweep across(lines, group, true);
    // The area under a curve has a few edges at every x and very many at some y.
    (across.work() < down.work() ? across : down).run(fill.pieces);
  }
  return fill;
}

}  // namespace kvloupe::figure
