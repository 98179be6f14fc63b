#include "app/plot/bar_plot.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace kvloupe::figure {

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
    bar.stroke = Stroke{look.colour, 0.8, {}, Cap::butt};
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

}  // namespace kvloupe::figure
