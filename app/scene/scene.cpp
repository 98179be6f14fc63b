#include "app/scene/scene.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numbers>
#include <vector>

namespace kvloupe::figure {

Path& Path::move(Point p) {
  verbs.push_back(PathVerb::move);
  points.push_back(p);
  return *this;
}

Path& Path::line(Point p) {
  verbs.push_back(PathVerb::line);
  points.push_back(p);
  return *this;
}

Path& Path::curve(Point control1, Point control2, Point end) {
  verbs.push_back(PathVerb::curve);
  points.insert(points.end(), {control1, control2, end});
  return *this;
}

Path& Path::close() {
  verbs.push_back(PathVerb::close);
  return *this;
}

Path& Path::rect(const Rect& r) {
  return move({r.x, r.y})
      .line({r.right(), r.y})
      .line({r.right(), r.bottom()})
      .line({r.x, r.bottom()})
      .close();
}

Path marker_path(MarkerShape shape, double size) {
  const double r = size / 2;
  Path path;
  switch (shape) {
    case MarkerShape::circle: {
      const double k = 0.5522847498307936 * r;  // four Bézier curves, off a circle by 0.03 %
      path.move({r, 0})
          .curve({r, k}, {k, r}, {0, r})
          .curve({-k, r}, {-r, k}, {-r, 0})
          .curve({-r, -k}, {-k, -r}, {0, -r})
          .curve({k, -r}, {r, -k}, {r, 0})
          .close();
      break;
    }
    case MarkerShape::square:
      path.rect({-0.886 * r, -0.886 * r, 1.772 * r, 1.772 * r});  // the circle's area
      break;
    case MarkerShape::diamond:
      path.move({0, -1.2 * r}).line({1.2 * r, 0}).line({0, 1.2 * r}).line({-1.2 * r, 0}).close();
      break;
    case MarkerShape::triangle:
      path.move({0, -1.1 * r}).line({r, 0.75 * r}).line({-r, 0.75 * r}).close();
      break;
    case MarkerShape::triangle_down:
      path.move({0, 1.1 * r}).line({r, -0.75 * r}).line({-r, -0.75 * r}).close();
      break;
    case MarkerShape::star:
      for (int i = 0; i < 10; ++i) {
        const double angle = std::numbers::pi * (i / 5.0 - 0.5);
        const double length = i % 2 == 0 ? 1.25 * r : 0.52 * r;
        const Point p{length * std::cos(angle), length * std::sin(angle)};
        if (i == 0) {
          path.move(p);
        } else {
          path.line(p);
        }
      }
      path.close();
      break;
  }
  return path;
}

Point Text::start() const {
  const double back = align == Align::left ? 0.0 : align == Align::centre ? width / 2 : width;
  return turned ? Point{anchor.x, anchor.y + back} : Point{anchor.x - back, anchor.y};
}

Rect Text::bounds() const {
  const Point s = start();
  const double ascent = 0.75 * size;
  const double descent = 0.22 * size;
  if (turned) return {s.x - ascent, s.y - width, ascent + descent, width};
  return {s.x, s.y - ascent, width, ascent + descent};
}

double Axis::share_of(double value) const {
  if (scale == AxisScale::log) {
    return (std::log(value) - std::log(first)) / (std::log(last) - std::log(first));
  }
  if (knee) {
    const double in_first = (value - first) / (*knee - first);
    return in_first <= 1.0 ? knee_share * in_first
                           : knee_share + (1.0 - knee_share) * (value - *knee) / (last - *knee);
  }
  return (value - first) / (last - first);
}

double Axis::value_at(double share) const {
  if (scale == AxisScale::log) {
    return std::exp(std::log(first) + share * (std::log(last) - std::log(first)));
  }
  if (knee) {
    return share <= knee_share ? first + share / knee_share * (*knee - first)
                               : *knee + (share - knee_share) / (1.0 - knee_share) * (last - *knee);
  }
  return first + share * (last - first);
}

void Axis::show(std::pair<double, double> part) {
  const auto [low, high] = std::minmax(part.first, part.second);
  const bool falls = first > last;
  first = falls ? high : low;
  last = falls ? low : high;
}

Point Axes::to_page(double x_value, double y_value) const {
  return {plot.x + plot.width * x.share_of(x_value), plot.y + plot.height * y.share_of(y_value)};
}

Point Axes::to_data(Point page) const {
  return {x.value_at((page.x - plot.x) / plot.width), y.value_at((page.y - plot.y) / plot.height)};
}

namespace {

/// The field of a target an axis speaks of; nullptr for plain values.
int Target::*field(AxisMeaning meaning, bool is_y, bool tokens_by_tokens) {
  switch (meaning) {
    case AxisMeaning::token:
      return is_y && tokens_by_tokens ? &Target::other_token : &Target::token;
    case AxisMeaning::step:
      return &Target::step;
    case AxisMeaning::layer:
      return &Target::layer;
    case AxisMeaning::head:
      return &Target::head;
    case AxisMeaning::value:
      break;
  }
  return nullptr;
}

bool tokens_by_tokens(const Axes& axes) {
  return axes.x.meaning == AxisMeaning::token && axes.y.meaning == AxisMeaning::token;
}

/// A cell of one axis, as shares of its side, cut to the plot; nothing where it is outside.
std::optional<std::pair<double, double>> cell_span(const Axis& axis, int cell) {
  double a = axis.share_of(cell);
  double b = axis.share_of(cell + 1);
  if (a > b) std::swap(a, b);
  a = std::max(a, 0.0);
  b = std::min(b, 1.0);
  if (!(b > a)) return std::nullopt;
  return std::pair{a, b};
}

/// Whether a place shows the target: no stated field differs and at least one agrees.
bool matches(const Target& wanted, const Target& place) {
  bool any = false;
  for (int Target::*f : {&Target::token, &Target::other_token, &Target::step, &Target::layer,
                         &Target::head, &Target::query_head, &Target::run}) {
    if (wanted.*f < 0 || place.*f < 0) continue;
    if (wanted.*f != place.*f) return false;
    any = true;
  }
  return any;
}

double distance_to_piece(Point p, Point a, Point b) {
  const double dx = b.x - a.x, dy = b.y - a.y;
  const double length = dx * dx + dy * dy;
  const double along =
      length > 0.0 ? std::clamp(((p.x - a.x) * dx + (p.y - a.y) * dy) / length, 0.0, 1.0) : 0.0;
  return std::hypot(a.x + along * dx - p.x, a.y + along * dy - p.y);
}

/// Fills the fields that are still open with the cell of the axes under the point. Returns whether
/// there is one.
bool add_cell(const std::vector<Axes>& all, Point p, Target& target) {
  for (const Axes& a : all) {
    if (!a.plot.contains(p)) continue;
    const Point data = a.to_data(p);
    bool any = false;
    const auto state = [&](const Axis& axis, double value, bool is_y) {
      int Target::*f = field(axis.meaning, is_y, tokens_by_tokens(a));
      if (f == nullptr) return;
      any = true;
      if (target.*f >= 0) return;
      const double low = std::min(axis.first, axis.last);
      const double high = std::max(axis.first, axis.last);
      target.*f =
          static_cast<int>(std::clamp(std::floor(value), std::floor(low), std::ceil(high) - 1));
    };
    state(a.x, data.x, false);
    state(a.y, data.y, true);
    if (any) return true;
  }
  return false;
}

}  // namespace

Target PickPoints::target(std::size_t point) const {
  if (!targets.empty()) return targets[point];
  Target token{.token = tokens[point]};
  return token;
}

const PickLine* Scene::line_at(Point p) const {
  constexpr double kTie = 1e-6;  // where lines lie on each other, the one drawn last is seen
  const PickLine* best = nullptr;
  double nearest = kLineReach;
  for (auto line = lines.rbegin(); line != lines.rend(); ++line) {
    const Rect& plot = line->plot;
    const Rect reach{plot.x - 1.0, plot.y - 1.0, plot.width + 2.0, plot.height + 2.0};
    if (!reach.contains(p)) continue;
    for (std::size_t i = 0; i + 1 < line->points.size(); ++i) {
      const double distance = distance_to_piece(p, line->points[i], line->points[i + 1]);
      if (distance > nearest - (best != nullptr ? kTie : 0.0)) continue;
      best = &*line;
      nearest = distance;
    }
  }
  return best;
}

std::optional<Target> Scene::pick(Point p) const {
  const PickPoints* best_set = nullptr;
  std::size_t best = 0;
  double best_distance = 0.0;
  for (const PickPoints& set : point_sets) {
    for (std::size_t i = 0; i < set.points.size(); ++i) {
      const double distance = std::hypot(set.points[i].x - p.x, set.points[i].y - p.y);
      if (distance > set.radius || (best_set != nullptr && distance >= best_distance)) continue;
      best_set = &set;
      best = i;
      best_distance = distance;
    }
  }
  if (best_set != nullptr) return best_set->target(best);
  if (const PickLine* line = line_at(p)) {
    Target target = line->target;
    add_cell(axes, p, target);
    return target;
  }
  for (auto region = regions.rbegin(); region != regions.rend(); ++region) {
    if (!region->rect.contains(p)) continue;
    Target target = region->target;
    add_cell(axes, p, target);
    return target;
  }
  Target target;
  if (add_cell(axes, p, target)) return target;
  return std::nullopt;
}

std::vector<Rect> Scene::where(const Target& target) const {
  std::vector<Rect> places;
  for (const Axes& a : axes) {
    int Target::*fx = field(a.x.meaning, false, tokens_by_tokens(a));
    int Target::*fy = field(a.y.meaning, true, tokens_by_tokens(a));
    const bool has_x = fx != nullptr && target.*fx >= 0;
    const bool has_y = fy != nullptr && target.*fy >= 0;
    if (!has_x && !has_y) continue;
    std::pair<double, double> sx{0.0, 1.0};
    std::pair<double, double> sy{0.0, 1.0};
    bool inside = true;
    if (has_x) {
      const auto span = cell_span(a.x, target.*fx);
      inside = span.has_value();
      if (span) sx = *span;
    }
    if (has_y && inside) {
      const auto span = cell_span(a.y, target.*fy);
      inside = span.has_value();
      if (span) sy = *span;
    }
    if (!inside) continue;
    places.push_back({a.plot.x + sx.first * a.plot.width, a.plot.y + sy.first * a.plot.height,
                      (sx.second - sx.first) * a.plot.width,
                      (sy.second - sy.first) * a.plot.height});
  }
  for (const PickRegion& region : regions) {
    if (matches(target, region.target)) places.push_back(region.rect);
  }
  for (const PickPoints& set : point_sets) {
    for (std::size_t i = 0; i < set.points.size(); ++i) {
      if (matches(target, set.target(i)))
        places.push_back({set.points[i].x, set.points[i].y, 0, 0});
    }
  }
  return places;
}

void move_items(std::vector<Item>& items, Point by) {
  const auto move = [by](Point& point) {
    point.x += by.x;
    point.y += by.y;
  };
  const auto move_rect = [by](Rect& rect) {
    rect.x += by.x;
    rect.y += by.y;
  };
  for (Item& item : items) {
    if (auto* path = std::get_if<Path>(&item)) {
      for (Point& point : path->points) move(point);
    }
    if (auto* markers = std::get_if<Markers>(&item)) {
      for (Point& point : markers->points) move(point);
    }
    if (auto* text = std::get_if<Text>(&item)) move(text->anchor);
    if (auto* image = std::get_if<Image>(&item)) move_rect(image->rect);
    if (auto* clip = std::get_if<PushClip>(&item)) move_rect(clip->rect);
  }
}

namespace {
constexpr double kPointsPerInch = 72.0;
constexpr double kMostPixels = 1 << 24;

/// How often to repeat each of `pixels` over so many points.
double repeats(double points, int pixels, double per_inch) {
  return std::max(1.0, std::ceil(points / kPointsPerInch * per_inch / pixels));
}
}  // namespace

std::shared_ptr<const Pixels> enlarged(const Image& image, double per_inch) {
  const auto& from = image.pixels;
  if (!from || from->width <= 0 || from->height <= 0) return from;
  if (image.interpolation == Interpolation::smooth) return from;
  double across = repeats(image.rect.width, from->width, per_inch);
  double down = repeats(image.rect.height, from->height, per_inch);
  const double size = across * from->width * down * from->height;
  if (size > kMostPixels) {
    const double shrink = std::sqrt(kMostPixels / size);
    across = std::max(1.0, std::floor(across * shrink));
    down = std::max(1.0, std::floor(down * shrink));
  }
  if (across == 1.0 && down == 1.0) return from;

  const auto columns = static_cast<std::size_t>(across), rows = static_cast<std::size_t>(down);
  auto result = std::make_shared<Pixels>();
  result->width = from->width * static_cast<int>(columns);
  result->height = from->height * static_cast<int>(rows);
  const std::size_t row_bytes = static_cast<std::size_t>(result->width) * 4;
  result->rgba.resize(row_bytes * static_cast<std::size_t>(result->height));
  const std::uint8_t* source = from->rgba.data();
  std::uint8_t* out = result->rgba.data();
  for (int y = 0; y < from->height; ++y) {
    std::uint8_t* const first_row = out;
    for (int x = 0; x < from->width; ++x, source += 4) {
      for (std::size_t i = 0; i < columns; ++i) out = std::copy_n(source, 4, out);
    }
    for (std::size_t i = 1; i < rows; ++i) out = std::copy_n(first_row, row_bytes, out);
  }
  return result;
}

namespace {

constexpr double slack = 0.3;  // points that may stick out, or be shared

bool on_page(const Scene& scene, const Rect& r) {
  return r.x >= -slack && r.y >= -slack && r.right() <= scene.width + slack &&
         r.bottom() <= scene.height + slack;
}

bool overlap(const Rect& a, const Rect& b) {
  return std::min(a.right(), b.right()) - std::max(a.x, b.x) > slack &&
         std::min(a.bottom(), b.bottom()) - std::max(a.y, b.y) > slack;
}

}  // namespace

void keep_fitting_texts(Scene& scene) {
  std::vector<Rect> kept;
  const auto unfit = [&](const Item& item) {
    const Text* text = std::get_if<Text>(&item);
    if (text == nullptr || text->text.empty()) return text != nullptr;
    const Rect box = text->bounds();
    const bool hidden = std::any_of(kept.begin(), kept.end(),
                                    [&](const Rect& other) { return overlap(box, other); });
    if (!on_page(scene, box) || hidden) return true;
    kept.push_back(box);
    return false;
  };
  std::vector<Item> items;
  for (Item& item : scene.items) {
    if (!unfit(item)) items.push_back(std::move(item));
  }
  scene.items = std::move(items);
}

}  // namespace kvloupe::figure
