#include "tests/figure/texts_on_data.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "app/scene/polygon.h"

namespace kvloupe::figure {

namespace {

constexpr double kCapitals = 0.7;    // of a text's size, above its baseline
constexpr double kLeastLine = 0.25;  // points; a thinner line under letters disturbs nobody
constexpr int kPale = 80;            // alpha; bands behind lines have less
constexpr double kFlat = 0.1;        // points; of flattened curves

/// What letters cover: the box from the baseline to the height of capitals.
Rect letters_of(const Text& text) {
  const Rect box = text.bounds();
  const double high = kCapitals * text.size;
  if (text.turned) return {text.anchor.x - high, box.y + 0.3, high, box.height - 0.6};
  return {box.x + 0.3, text.anchor.y - high, box.width - 0.6, high};
}

Rect common(const Rect& a, const Rect& b) {
  const double x = std::max(a.x, b.x), y = std::max(a.y, b.y);
  return {x, y, std::min(a.right(), b.right()) - x, std::min(a.bottom(), b.bottom()) - y};
}

bool meet(const Rect& a, const Rect& b) {
  const Rect both = common(a, b);
  return both.width > 0.0 && both.height > 0.0;
}

bool holds(const Rect& outer, const Rect& inner) {
  return inner.x >= outer.x && inner.y >= outer.y && inner.right() <= outer.right() &&
         inner.bottom() <= outer.bottom();
}

/// Whether the part of a line within a box is longer than nothing (Liang and Barsky).
bool crosses(Point from, Point to, const Rect& box) {
  double first = 0.0, last = 1.0;
  const auto clip = [&](double step, double room) {
    if (step == 0.0) return room >= 0.0;
    const double at = room / step;
    if (step > 0.0) {
      last = std::min(last, at);
    } else {
      first = std::max(first, at);
    }
    return first <= last;
  };
  const double dx = to.x - from.x, dy = to.y - from.y;
  return clip(dx, box.right() - from.x) && clip(-dx, from.x - box.x) &&
         clip(dy, box.bottom() - from.y) && clip(-dy, from.y - box.y);
}

class Finder {
 public:
  Finder(const Scene& scene, const Style& style) : scene_(scene), style_(style) {}

  std::vector<std::string> run() {
    std::vector<std::string> found;
    for (std::size_t i = 0; i < scene_.items.size(); ++i) {
      const auto* text = std::get_if<Text>(&scene_.items[i]);
      if (text == nullptr || text->text.empty() || text->text == " ") continue;
      const std::string what = under(*text, i);
      if (!what.empty()) found.push_back(fmt::format("text \"{}\" stands on {}", text->text, what));
    }
    return found;
  }

 private:
  /// What the text at this place among the items stands on; empty: nothing that matters.
  std::string under(const Text& text, std::size_t place) {
    const Rect box = letters_of(text);
    std::string what;
    clips_.clear();
    for (std::size_t i = 0; i < scene_.items.size(); ++i) {
      const Item& item = scene_.items[i];
      if (const auto* clip = std::get_if<PushClip>(&item)) {
        clips_.push_back(clips_.empty() ? clip->rect : common(clips_.back(), clip->rect));
      } else if (std::holds_alternative<PopClip>(item)) {
        clips_.pop_back();
      } else if (i != place) {
        if (i < place && is_ground(item, box)) what.clear();
        if (what.empty()) what = meeting(item, box);
      }
    }
    return what;
  }

  bool is_quiet(Colour colour) const {
    return colour.alpha < kPale || is(colour, style_.colours.grid) ||
           is(colour, style_.colours.paper) || is(colour, scene_.background);
  }
  static bool is(Colour a, Colour b) {
    return a.red == b.red && a.green == b.green && a.blue == b.blue;
  }

  /// A filled rectangle in the colour of paper under all of the letters.
  bool is_ground(const Item& item, const Rect& box) const {
    const auto* path = std::get_if<Path>(&item);
    if (path == nullptr || !path->fill || path->fill->alpha < 180) return false;
    if (!is(*path->fill, style_.colours.paper)) return false;
    for (const Polyline& part : flatten(*path, kFlat)) {
      if (const auto rect = as_rect(part); rect && holds(*rect, box)) return true;
    }
    return false;
  }

  static std::optional<Rect> as_rect(const Polyline& line) {
    const auto& p = line.points;
    if (p.size() < 4 || p.size() > 5) return std::nullopt;
    const Rect rect{std::min(p[0].x, p[2].x), std::min(p[0].y, p[2].y), std::abs(p[2].x - p[0].x),
                    std::abs(p[2].y - p[0].y)};
    const bool level =
        (p[0].x == p[1].x || p[0].y == p[1].y) && (p[1].x == p[2].x || p[1].y == p[2].y);
    return level ? std::optional(rect) : std::nullopt;
  }

  std::string meeting(const Item& item, const Rect& letters) const {
    const Rect box = clips_.empty() ? letters : common(letters, clips_.back());
    if (!(box.width > 0.0) || !(box.height > 0.0)) return {};
    if (const auto* markers = std::get_if<Markers>(&item)) return meeting(*markers, box);
    if (const auto* image = std::get_if<Image>(&item)) return meeting(*image, letters);
    if (const auto* path = std::get_if<Path>(&item)) return meeting(*path, box);
    return {};
  }

  std::string meeting(const Markers& markers, const Rect& box) const {
    const bool seen = (markers.fill && !is_quiet(*markers.fill)) ||
                      (markers.stroke && !is_quiet(markers.stroke->colour));
    if (!seen) return {};
    const double reach = 0.45 * markers.size;  // a corner of a mark's box is empty
    for (const Point p : markers.points) {
      const double dx = std::max({box.x - p.x, p.x - box.right(), 0.0});
      const double dy = std::max({box.y - p.y, p.y - box.bottom(), 0.0});
      if (std::hypot(dx, dy) < reach) return fmt::format("a point at {:.1f},{:.1f}", p.x, p.y);
    }
    return {};
  }

  /// Within a map each text keeps to its cell; maps of tokens, pixel by pixel, have no texts.
  std::string meeting(const Image& image, const Rect& letters) const {
    if (!meet(image.rect, letters)) return {};
    if (!holds(image.rect, letters)) return "the edge of a map";
    for (const Axes& axes : scene_.axes) {
      if (!holds(axes.plot, letters)) continue;
      const auto within = [](const Axis& axis, double from, double to) {
        if (axis.meaning == AxisMeaning::value && axis.names.empty()) return true;
        return std::floor(std::min(from, to)) == std::floor(std::max(from, to));
      };
      const Point a = axes.to_data({letters.x, letters.y});
      const Point b = axes.to_data({letters.right(), letters.bottom()});
      if (!within(axes.x, a.x, b.x) || !within(axes.y, a.y, b.y)) return "a cell of its neighbour";
    }
    return {};
  }

  std::string meeting(const Path& path, const Rect& box) const {
    const bool filled = path.fill && !is_quiet(*path.fill);
    const bool drawn =
        path.stroke && !is_quiet(path.stroke->colour) && path.stroke->width > kLeastLine;
    if (!filled && !drawn) return {};
    for (const Polyline& part : flatten(path, kFlat)) {
      std::vector<Point> points = part.points;
      if (filled || part.closed) points.push_back(points.front());
      for (std::size_t i = 1; i < points.size(); ++i) {
        if (is_frame(path, points[i - 1], points[i]) || strikes(points[i - 1], points[i], box))
          continue;
        if (crosses(points[i - 1], points[i], box)) {
          return fmt::format("{} at {:.1f},{:.1f}", filled ? "the edge of an area" : "a line",
                             points[i].x, points[i].y);
        }
      }
    }
    return {};
  }

  /// A line through the whole text and no further is the text's own: struck through.
  static bool strikes(Point from, Point to, const Rect& box) {
    return from.y == to.y && std::abs(std::min(from.x, to.x) - box.x) < 1.5 &&
           std::abs(std::max(from.x, to.x) - box.right()) < 1.5;
  }

  /// Axes and ticks: in ink, along the sides of plots or outside of them.
  bool is_frame(const Path& path, Point from, Point to) const {
    if (!path.stroke || path.fill || !is(path.stroke->colour, style_.colours.ink)) return false;
    return std::none_of(scene_.axes.begin(), scene_.axes.end(), [&](const Axes& axes) {
      const Rect inner{axes.plot.x + 0.5, axes.plot.y + 0.5, axes.plot.width - 1.0,
                       axes.plot.height - 1.0};
      return crosses(from, to, inner);
    });
  }

  const Scene& scene_;
  const Style& style_;
  std::vector<Rect> clips_;
};

}  // namespace

std::vector<std::string> texts_on_data(const Scene& scene, const Style& style) {
  return Finder(scene, style).run();
}

std::vector<std::string> cut_texts(const Scene& scene) {
  std::vector<std::string> cut;
  for (const Item& item : scene.items) {
    const auto* text = std::get_if<Text>(&item);
    if (text != nullptr && text->text.find("…") != std::string::npos) cut.push_back(text->text);
  }
  return cut;
}

}  // namespace kvloupe::figure
