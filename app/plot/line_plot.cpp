#include "app/plot/line_plot.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

namespace kvloupe::figure {

namespace {

bool drawable(const Axes& axes, Point data) {
  return std::isfinite(data.x) && std::isfinite(data.y) &&
         (axes.x.scale == AxisScale::linear || data.x > 0.0) &&
         (axes.y.scale == AxisScale::linear || data.y > 0.0);
}

bool inside(const Rect& plot, const std::vector<Point>& points) {
  const Rect wide{plot.x - 0.01, plot.y - 0.01, plot.width + 0.02, plot.height + 0.02};
  return std::all_of(points.begin(), points.end(), [&](Point p) { return wide.contains(p); });
}

void add_clipped(Scene& scene, const Axes& axes, Path path) {
  if (path.points.empty()) return;
  const bool clip = !inside(axes.plot, path.points);
  if (clip) scene.add(PushClip{axes.plot});
  scene.add(std::move(path));
  if (clip) scene.add(PopClip{});
}

}  // namespace

void add_line(Scene& scene, const Axes& axes, std::span<const Point> data, const SeriesLook& look,
              const Target& target) {
  Path path{.stroke = Stroke{look.colour, look.width, look.dash, Cap::butt}};
  const bool found = target != Target{};
  bool open = false;
  for (std::size_t i = 0; i < data.size(); ++i) {
    if (!drawable(axes, data[i])) {
      open = false;
      continue;
    }
    const Point at = axes.to_page(data[i].x, data[i].y);
    if (open) {
      path.line(at);
      if (found) scene.lines.back().points.push_back(at);
    } else if (i + 1 < data.size() && drawable(axes, data[i + 1])) {
      path.move(at);
      if (found) scene.lines.push_back({{at}, target, axes.plot});
      open = true;
    }
  }
  add_clipped(scene, axes, std::move(path));
}

void add_marked_line(Scene& scene, const Style& style, const Axes& axes,
                     std::span<const Point> data, const SeriesLook& look, double mark_size,
                     const Target& target) {
  add_line(scene, axes, data, look, target);
  std::vector<Point> points;
  for (const Point& one : data) {
    if (!drawable(axes, one)) continue;
    const Point at = axes.to_page(one.x, one.y);
    if (axes.plot.contains(at)) points.push_back(at);
  }
  if (!points.empty()) scene.add(series_marks(style, look, mark_size, std::move(points)));
}

void add_band(Scene& scene, const Axes& axes, std::span<const double> x,
              std::span<const double> low, std::span<const double> high, Colour fill) {
  Path path{.fill = fill};
  std::vector<Point> back;
  const auto close = [&] {
    if (back.size() > 1) {
      for (auto p = back.rbegin(); p != back.rend(); ++p) path.line(*p);
      path.close();
    }
    back.clear();
  };
  std::vector<std::pair<Point, Point>> run;
  const auto flush = [&] {
    if (run.size() > 1) {
      for (std::size_t i = 0; i < run.size(); ++i) {
        if (i == 0) {
          path.move(run[i].second);
        } else {
          path.line(run[i].second);
        }
        back.push_back(run[i].first);
      }
      close();
    }
    run.clear();
  };
  for (std::size_t i = 0; i < x.size(); ++i) {
    if (drawable(axes, {x[i], low[i]}) && drawable(axes, {x[i], high[i]})) {
      run.emplace_back(axes.to_page(x[i], low[i]), axes.to_page(x[i], high[i]));
    } else {
      flush();
    }
  }
  flush();
  add_clipped(scene, axes, std::move(path));
}

void add_level(Scene& scene, const Style& style, const Axes& axes, double value,
               const std::string& name, bool along_x, bool name_at_start) {
  const Rect& plot = axes.plot;
  const Axis& axis = along_x ? axes.y : axes.x;
  if (!std::isfinite(value) || (axis.scale == AxisScale::log && !(value > 0.0))) return;
  const double share = axis.share_of(value);
  if (share < -1e-9 || share > 1.0 + 1e-9) return;
  const double at = along_x ? plot.y + plot.height * share : plot.x + plot.width * share;
  Path line = along_x ? make_line({plot.x, at}, {plot.right(), at}, style.colours.faint, 0.6)
                      : make_line({at, plot.y}, {at, plot.bottom()}, style.colours.faint, 0.6);
  line.stroke->dash = {2.0, 1.5};
  scene.add(std::move(line));
  if (name.empty()) return;
  if (along_x) {  // above the line, unless that is outside
    const bool above = at - plot.y > style.small * 1.2;
    add_note(scene, style, name,
             {name_at_start ? plot.x + 2.0 : plot.right() - 1.0,
              above ? at - 2.5 : at + style.small * 1.1},
             name_at_start ? Align::left : Align::right);
  } else {
    const bool before =
        plot.right() - at < style.fonts->width(name, Font::regular, style.small) + 4.0;
    add_note(scene, style, name, {before ? at - 2.5 : at + 2.5, plot.y + style.small * 0.8},
             before ? Align::right : Align::left);
  }
}

void add_note(Scene& scene, const Style& style, const std::string& text, Point anchor,
              Align align) {
  Text note = make_text(style, text, anchor, style.small, Font::regular, align);
  note.colour = style.colours.faint;
  const Rect box = note.bounds();
  Path ground;
  ground.rect({box.x - 1.0, box.y, box.width + 2.0, box.height});
  ground.fill = style.colours.paper.with_alpha(0.8);
  scene.add(std::move(ground));
  scene.add(std::move(note));
}

}  // namespace kvloupe::figure
