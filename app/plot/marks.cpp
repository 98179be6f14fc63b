#include "app/plot/marks.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "analysis/math/norms.h"

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

namespace {

constexpr double cell_share = 0.76;  // of a cell is bars

/// The place of a value on the value axis, kept on the plot.
double on_axis(const Axis& axis, double value) {
  const double low = std::min(axis.first, axis.last);
  const double high = std::max(axis.first, axis.last);
  return std::clamp(value, low, high);
}

}  // namespace

void add_bar(Scene& scene, const Style& style, const Axes& axes, double cell, double from,
             double to, const SeriesLook& look, int place, int count, bool upright) {
  if (!std::isfinite(from) || !std::isfinite(to)) return;
  const Axis& axis = upright ? axes.y : axes.x;
  const double each = cell_share / count;
  const double first = cell + (1.0 - cell_share) / 2 + place * each;
  const double a = on_axis(axis, from);
  const double b = on_axis(axis, to);
  const Point p = upright ? axes.to_page(first, a) : axes.to_page(a, first);
  const Point q = upright ? axes.to_page(first + each, b) : axes.to_page(b, first + each);
  Rect rect{std::min(p.x, q.x), std::min(p.y, q.y), std::abs(q.x - p.x), std::abs(q.y - p.y)};
  Path bar;
  if (!look.filled) {  // the outline stays inside the bar
    const double inset = std::min({0.4, rect.width / 2, rect.height / 2});
    rect = {rect.x + inset, rect.y + inset, rect.width - 2 * inset, rect.height - 2 * inset};
    bar.stroke = Stroke{look.colour, 0.8};
  }
  bar.rect(rect);
  bar.fill = look.filled ? look.colour : style.colours.paper;
  scene.add(std::move(bar));
}

void add_bar_number(Scene& scene, const Style& style, const Axes& axes, double cell, double to,
                    const std::string& text, int place, int count, bool upright) {
  if (!std::isfinite(to)) return;
  const Axis& axis = upright ? axes.y : axes.x;
  const double each = cell_share / count;
  const double middle = cell + (1.0 - cell_share) / 2 + (place + 0.5) * each;
  const double end = on_axis(axis, to);
  const Point at = upright ? axes.to_page(middle, end) : axes.to_page(end, middle);
  const double cap = style.fonts->cap_height() * style.small;
  if (upright) {
    Text label =
        make_text(style, text, {at.x, at.y - 2.0}, style.small, Font::regular, Align::centre);
    const double room = std::abs(axes.to_page(middle + each, end).x - at.x);
    if (label.width <= room && at.y - 2.0 - cap > 0.0) scene.add(std::move(label));
  } else {
    const double room = std::abs(axes.to_page(end, middle + each).y - at.y);
    Text label = make_text(style, text, {at.x + 2.5, at.y + cap / 2}, style.small);
    if (style.small <= room * 1.2 && at.x + 2.5 + label.width < scene.width)
      scene.add(std::move(label));
  }
}

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

namespace {

std::vector<double> sorted_finite(std::span<const double> values) {
  std::vector<double> sorted;
  for (const double value : values) {
    if (std::isfinite(value)) sorted.push_back(value);
  }
  std::sort(sorted.begin(), sorted.end());
  return sorted;
}

double quantile_of_sorted(const std::vector<double>& sorted, double share) {
  if (sorted.empty()) return std::numeric_limits<double>::quiet_NaN();
  const double at = share * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(at);
  if (below + 1 >= sorted.size()) return sorted.back();
  return sorted[below] + (at - static_cast<double>(below)) * (sorted[below + 1] - sorted[below]);
}

}  // namespace

double quantile(std::span<const double> values, double share) {
  return quantile_of_sorted(sorted_finite(values), share);
}

BoxNumbers box_numbers(std::span<const double> values) {
  BoxNumbers box;
  const std::vector<double> sorted = sorted_finite(values);
  box.count = sorted.size();
  if (sorted.empty()) return box;
  box.first_quartile = quantile_of_sorted(sorted, 0.25);
  box.median = quantile_of_sorted(sorted, 0.5);
  box.third_quartile = quantile_of_sorted(sorted, 0.75);
  const double reach = 1.5 * (box.third_quartile - box.first_quartile);
  box.low = box.first_quartile;
  box.high = box.third_quartile;
  for (const double value : sorted) {
    if (value < box.first_quartile - reach || value > box.third_quartile + reach) {
      box.outliers.push_back(value);
    } else {
      box.low = std::min(box.low, value);
      box.high = std::max(box.high, value);
    }
  }
  return box;
}

void add_box(Scene& scene, const Style& style, const Axes& axes, double cell,
             const BoxNumbers& numbers, const SeriesLook& look, bool upright) {
  if (numbers.count == 0) return;
  const Axis& axis = upright ? axes.y : axes.x;
  const auto shown = [&](double value) {  // kept on the plot; a log axis has no 0
    const double low = std::min(axis.first, axis.last);
    const double high = std::max(axis.first, axis.last);
    return std::clamp(value, low, high);
  };
  const auto at = [&](double beside, double value) {
    return upright ? axes.to_page(cell + beside, shown(value))
                   : axes.to_page(shown(value), cell + beside);
  };
  Path whiskers;
  whiskers.move(at(0.5, numbers.low)).line(at(0.5, numbers.first_quartile));
  whiskers.move(at(0.5, numbers.third_quartile)).line(at(0.5, numbers.high));
  add_stroked(scene, std::move(whiskers), {look.colour, 0.8});
  Path box;
  box.move(at(0.3, numbers.first_quartile))
      .line(at(0.7, numbers.first_quartile))
      .line(at(0.7, numbers.third_quartile))
      .line(at(0.3, numbers.third_quartile))
      .close();
  box.fill = style.colours.paper;
  add_stroked(scene, std::move(box), {look.colour, 0.8});
  Path median;
  median.move(at(0.3, numbers.median)).line(at(0.7, numbers.median));
  add_stroked(scene, std::move(median), {look.colour, 1.8});
  std::vector<Point> outliers;
  for (const double value : numbers.outliers) {
    if (shown(value) == value) outliers.push_back(at(0.5, value));
  }
  if (!outliers.empty()) {
    SeriesLook open = look;
    open.filled = false;
    scene.add(series_marks(style, open, 2.4, std::move(outliers)));
  }
}

namespace {

constexpr int ridge_points = 160;
constexpr double ridge_height = 0.88;  // of a cell

/// Silverman's rule, at least one histogram bin.
double bandwidth(std::span<const float> inside, double bin) {
  const auto count = static_cast<double>(inside.size());
  double sum = 0.0, squares = 0.0;
  for (const float value : inside) sum += static_cast<double>(value);
  for (const float value : inside) {
    const double away = static_cast<double>(value) - sum / count;
    squares += away * away;
  }
  std::vector<float> sorted(inside.begin(), inside.end());
  std::sort(sorted.begin(), sorted.end());
  const double quartiles =
      static_cast<double>(sorted[sorted.size() * 3 / 4] - sorted[sorted.size() / 4]);
  double spread = std::sqrt(squares / count);
  if (quartiles > 0.0) spread = std::min(spread, quartiles / 1.34);
  return std::max(0.9 * spread * std::pow(count, -0.2), bin);
}

}  // namespace

std::vector<double> density(std::span<const float> values, double low, double high, int points) {
  std::vector<double> counts(static_cast<std::size_t>(points), 0.0);
  std::vector<float> inside;
  const double bin = (high - low) / points;
  for (const float value : values) {
    const auto v = static_cast<double>(value);
    if (!std::isfinite(v) || v < low || v > high) continue;
    inside.push_back(value);
    counts[std::min(static_cast<std::size_t>((v - low) / bin), counts.size() - 1)] += 1.0;
  }
  std::vector<double> result(counts.size(), 0.0);
  if (inside.empty()) return result;
  const double width = bandwidth(inside, bin) / bin;  // in bins
  const int reach = std::max(1, static_cast<int>(std::ceil(4.0 * width)));
  for (int i = 0; i < points; ++i) {
    const double count = counts[static_cast<std::size_t>(i)];
    if (count == 0.0) continue;
    for (int j = std::max(0, i - reach); j <= std::min(points - 1, i + reach); ++j) {
      const double away = (j - i) / width;
      result[static_cast<std::size_t>(j)] += count * std::exp(-0.5 * away * away);
    }
  }
  const double most = *std::max_element(result.begin(), result.end());
  for (double& one : result) one /= most;
  return result;
}

void add_ridge(Scene& scene, const Style& style, const Axes& axes, double cell,
               std::span<const float> values, bool chosen) {
  const double low = std::min(axes.x.first, axes.x.last);
  const double high = std::max(axes.x.first, axes.x.last);
  const std::vector<double> heights = density(values, low, high, ridge_points);
  const auto at = [&](double x, double height) {
    return axes.to_page(x, cell + 1.0 - ridge_height * height);
  };
  const double bin = (high - low) / ridge_points;
  const auto shown = [&](std::size_t i) { return heights[i] > 0.002; };
  Path area, line;
  std::size_t first = 0, last = heights.size();
  while (first < heights.size() && !shown(first)) ++first;
  while (last > first && !shown(last - 1)) --last;
  if (first == last) return;
  const double from = low + bin * static_cast<double>(first),
               to = low + bin * static_cast<double>(last);
  area.move(at(from, 0.0));
  for (std::size_t i = first; i < last; ++i) {
    const Point p = at(low + bin * (static_cast<double>(i) + 0.5), heights[i]);
    area.line(p);
    if (i == first) {
      line.move(p);
    } else {
      line.line(p);
    }
  }
  area.line(at(to, 0.0)).close();
  const Colour ink = chosen ? style.colours.selection : style.colours.both;
  area.fill = ink.with_alpha(0.32);
  line.stroke = Stroke{ink, chosen ? 1.2 : 0.6};
  scene.add(std::move(area));
  scene.add(std::move(line));
  const auto middle = static_cast<double>(median(values));
  if (!(middle >= low && middle <= high)) return;
  const auto place = std::min(static_cast<std::size_t>((middle - low) / bin), heights.size() - 1);
  scene.add(make_line(at(middle, 0.0), at(middle, std::max(0.3, heights[place])), style.colours.ink,
                      0.9));
}

}  // namespace kvloupe::figure
