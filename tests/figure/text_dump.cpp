#include "tests/figure/text_dump.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "analysis/base/core/error.h"

namespace kvloupe::figure {

namespace {

bool finite(Point p) { return std::isfinite(p.x) && std::isfinite(p.y); }
bool finite(const Rect& r) {
  return std::isfinite(r.x) && std::isfinite(r.y) && std::isfinite(r.width) &&
         std::isfinite(r.height);
}
bool all_finite(const std::vector<Point>& points) {
  return std::all_of(points.begin(), points.end(), [](Point p) { return finite(p); });
}

class Validator {
 public:
  explicit Validator(const Scene& scene) : scene_(scene) {}

  std::vector<std::string> run() {
    if (!(scene_.width > 0) || !(scene_.height > 0) ||
        !std::isfinite(scene_.width + scene_.height)) {
      report(fmt::format("the page is {} × {} points", scene_.width, scene_.height));
    }
    for (const Item& item : scene_.items) {
      std::visit(*this, item);
      ++index_;
    }
    if (clips_ != 0) report(fmt::format("{} clips are not popped", clips_));
    overlaps();
    for (const Axes& axes : scene_.axes) check(axes);
    return std::move(problems_);
  }

  void operator()(const Path& path) {
    if (!all_finite(path.points)) item("path", "has a coordinate that is not a number");
    std::size_t wanted = 0;
    bool open = false;
    for (const PathVerb verb : path.verbs) {
      if (verb == PathVerb::move) open = true;
      if (!open) {
        item("path", "does not begin with a move");
        break;
      }
      wanted += verb == PathVerb::curve ? 3 : verb == PathVerb::close ? 0 : 1;
    }
    if (wanted != path.points.size()) item("path", "has points that do not fit its verbs");
    check(path.stroke);
  }

  void operator()(const Markers& markers) {
    if (!all_finite(markers.points)) item("markers", "have a coordinate that is not a number");
    if (!(markers.size > 0)) item("markers", "have no size");
    check(markers.stroke);
  }

  void operator()(const Text& text) {
    const std::string name = "text \"" + text.text + '"';
    if (!finite(text.anchor) || !std::isfinite(text.width)) {
      item(name, "has a coordinate that is not a number");
      return;
    }
    if (!(text.size > 0)) item(name, "has no size");
    if (!text.text.empty() && text.text != " " && !(text.width > 0)) item(name, "was not measured");
    const Rect r = text.bounds();
    constexpr double slack = 0.6;
    if (r.x < -slack || r.y < -slack || r.right() > scene_.width + slack ||
        r.bottom() > scene_.height + slack) {
      item(name, "lies outside the page");
    }
    if (text.width > 0) texts_.push_back(&text);
  }

  void operator()(const Image& image) {
    if (!finite(image.rect)) item("image", "has a coordinate that is not a number");
    if (!image.pixels || image.pixels->width <= 0 || image.pixels->height <= 0 ||
        image.pixels->rgba.size() != static_cast<std::size_t>(image.pixels->width) *
                                         static_cast<std::size_t>(image.pixels->height) * 4) {
      item("image", "lacks pixels");
    }
    if (image.key.empty()) item("image", "has no key");
  }

  void operator()(const PushClip& clip) {
    ++clips_;
    if (!finite(clip.rect)) item("clip", "has a coordinate that is not a number");
  }

  void operator()(const PopClip&) {
    if (clips_ == 0) {
      item("clip", "is popped but was not pushed");
    } else {
      --clips_;
    }
  }

 private:
  void report(std::string line) { problems_.push_back(std::move(line)); }
  void item(const std::string& name, const char* what) {
    report(fmt::format("item {}: {} {}", index_, name, what));
  }
  void check(const std::optional<Stroke>& stroke) {
    if (stroke && !(stroke->width > 0)) item("stroke", "has no width");
  }

  void check(const Axes& axes) {
    if (!finite(axes.plot) || !(axes.plot.width > 0) || !(axes.plot.height > 0)) {
      report("axes: the plot has no area");
      return;
    }
    for (const Axis* axis : {&axes.x, &axes.y}) {
      const bool positive = axis->first > 0 && axis->last > 0;
      if (!std::isfinite(axis->first) || !std::isfinite(axis->last) || axis->first == axis->last ||
          (axis->scale == AxisScale::log && !positive)) {
        report(fmt::format("axes \"{}\": from {} to {}", axis->label, axis->first, axis->last));
      }
    }
  }

  /// Reports texts whose boxes share more than a hairline.
  void overlaps() {
    std::sort(texts_.begin(), texts_.end(),
              [](const Text* a, const Text* b) { return a->bounds().x < b->bounds().x; });
    for (std::size_t i = 0; i < texts_.size(); ++i) {
      const Rect a = texts_[i]->bounds();
      for (std::size_t j = i + 1; j < texts_.size(); ++j) {
        const Rect b = texts_[j]->bounds();
        if (b.x > a.right()) break;
        const double wide = std::min(a.right(), b.right()) - std::max(a.x, b.x);
        const double high = std::min(a.bottom(), b.bottom()) - std::max(a.y, b.y);
        if (wide > 0.3 && high > 0.3) {
          report(fmt::format("text \"{}\" overlaps \"{}\"", texts_[i]->text, texts_[j]->text));
        }
      }
    }
  }

  const Scene& scene_;
  std::vector<std::string> problems_;
  std::vector<const Text*> texts_;
  int clips_ = 0;
  std::size_t index_ = 0;
};

std::string number(double value) {
  const double tenth = std::round(value * 10.0) / 10.0;
  return fmt::format("{:.1f}", tenth == 0.0 ? 0.0 : tenth);
}
std::string show(Point p) { return number(p.x) + "," + number(p.y); }
std::string show(const Rect& r) {
  return show(Point{r.x, r.y}) + " " + number(r.width) + "x" + number(r.height);
}
std::string show(Colour c) {
  return c.alpha == 255 ? fmt::format("#{:02x}{:02x}{:02x}", c.red, c.green, c.blue)
                        : fmt::format("#{:02x}{:02x}{:02x}{:02x}", c.red, c.green, c.blue, c.alpha);
}
std::string show(const std::optional<Colour>& fill, const std::optional<Stroke>& stroke) {
  std::string out;
  if (fill) out += " fill " + show(*fill);
  if (stroke) {
    out += " stroke " + show(stroke->colour) + " " + number(stroke->width);
    if (!stroke->dash.empty()) out += " dashed";
  }
  return out;
}

/// Points of a short run one by one. A long run is told by its box and by the mean places of
/// `most` parts of equal length: enough to see a curve move or one part of it go astray.
std::string show(const std::vector<Point>& points) {
  constexpr std::size_t most = 24;
  std::string out;
  if (points.size() <= most) {
    for (const Point p : points) out += " " + show(p);
    return out;
  }
  Point low = points.front();
  Point high = low;
  for (const Point p : points) {
    low = {std::min(low.x, p.x), std::min(low.y, p.y)};
    high = {std::max(high.x, p.x), std::max(high.y, p.y)};
  }
  out = fmt::format(" {} points in {} through", points.size(),
                    show(Rect{low.x, low.y, high.x - low.x, high.y - low.y}));
  for (std::size_t part = 0; part < most; ++part) {
    const std::size_t from = part * points.size() / most;
    const std::size_t end = (part + 1) * points.size() / most;
    Point mean;
    for (std::size_t i = from; i < end; ++i) mean = {mean.x + points[i].x, mean.y + points[i].y};
    const auto count = static_cast<double>(end - from);
    out += " " + show(Point{mean.x / count, mean.y / count});
  }
  return out;
}

/// Mean colours of up to 8×8 parts of a picture, one line for each row of parts. Colours count by
/// their alpha, which is named where a part is not opaque.
std::string show(const Pixels& pixels, const std::string& indent) {
  constexpr int most = 8;
  const int rows = std::min(most, pixels.height);
  const int columns = std::min(most, pixels.width);
  std::string out;
  for (int row = 0; row < rows; ++row) {
    out += indent + "cells";
    for (int column = 0; column < columns; ++column) {
      std::array<double, 4> sum{};
      long count = 0;
      for (int y = row * pixels.height / rows; y < (row + 1) * pixels.height / rows; ++y) {
        const int end = (column + 1) * pixels.width / columns;
        for (int x = column * pixels.width / columns; x < end; ++x, ++count) {
          const std::uint8_t* p =
              &pixels.rgba[(static_cast<std::size_t>(y) * static_cast<std::size_t>(pixels.width) +
                            static_cast<std::size_t>(x)) *
                           4];
          for (std::size_t c = 0; c < 3; ++c) sum[c] += p[c] * p[3] / 255.0;
          sum[3] += p[3];
        }
      }
      std::array<std::uint8_t, 4> mean{};
      for (std::size_t c = 0; c < 4; ++c)
        mean[c] = static_cast<std::uint8_t>(std::lround(sum[c] / static_cast<double>(count)));
      out += " " + show(Colour{mean[0], mean[1], mean[2], mean[3]});
    }
    out += "\n";
  }
  return out;
}

constexpr const char* shape_names[] = {"circle",   "square",        "diamond",
                                       "triangle", "triangle_down", "star"};
constexpr const char* font_names[] = {"regular", "bold", "mono", "italic"};
constexpr const char* align_names[] = {"left", "centre", "right"};
constexpr const char* meaning_names[] = {"token", "step", "layer", "head", "value"};

struct Dumper {
  std::string& out;
  std::string indent = {};

  void operator()(const Path& path) {
    out += indent + "path" + show(path.fill, path.stroke) + show(path.points) + "\n";
  }
  void operator()(const Markers& m) {
    out += indent + "markers " + shape_names[static_cast<int>(m.shape)] + " " + number(m.size) +
           show(m.fill, m.stroke) + show(m.points) + "\n";
  }
  void operator()(const Text& t) {
    out += fmt::format("{}text \"{}\" {} {} {} {}{} {}\n", indent, t.text, show(t.anchor),
                       number(t.size), font_names[static_cast<int>(t.font)],
                       align_names[static_cast<int>(t.align)], t.turned ? " turned" : "",
                       show(t.colour));
  }
  void operator()(const Image& image) {
    out += fmt::format("{}image {} of {}x{} pixels\n", indent, show(image.rect),
                       image.pixels->width, image.pixels->height);
    out += show(*image.pixels, indent + "  ");
  }
  void operator()(const PushClip& clip) {
    out += indent + "clip " + show(clip.rect) + "\n";
    indent += "  ";
  }
  void operator()(const PopClip&) { indent.resize(indent.size() - 2); }
};

}  // namespace

std::vector<std::string> scene_problems(const Scene& scene) { return Validator(scene).run(); }

std::string write_text_dump(const Scene& scene) {
  const std::vector<std::string> problems = scene_problems(scene);
  if (!problems.empty()) throw WorkError("figure \"" + scene.title + "\": " + problems.front());
  std::string out = fmt::format("page {}x{} {}\n", number(scene.width), number(scene.height),
                                show(scene.background));
  for (const Axes& a : scene.axes) {
    const auto axis = [](const Axis& one) {
      return fmt::format("{} \"{}\" {:.4g}..{:.4g}{}", meaning_names[static_cast<int>(one.meaning)],
                         one.label, one.first, one.last, one.scale == AxisScale::log ? " log" : "");
    };
    out += fmt::format("axes {} x {} y {}\n", show(a.plot), axis(a.x), axis(a.y));
  }
  if (!scene.regions.empty()) out += fmt::format("{} pick regions\n", scene.regions.size());
  for (const PickPoints& set : scene.point_sets)
    out += fmt::format("{} pick points\n", set.points.size());
  if (!scene.lines.empty()) out += fmt::format("{} pick lines\n", scene.lines.size());
  Dumper dumper{out};
  for (const Item& item : scene.items) std::visit(dumper, item);
  return out;
}

}  // namespace kvloupe::figure
