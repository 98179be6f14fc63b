#include "app/scene/winding_fill.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <utility>

namespace kvloupe::figure {

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
