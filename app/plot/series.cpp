#include "app/plot/series.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

namespace kvloupe::figure {

namespace {

constexpr double sample = 11.0;  // points; the line before a name
constexpr double sample_gap = 3.0;

void add_sample(Scene& scene, const Style& style, const SeriesLook& look, Point left) {
  Path line = make_line(left, {left.x + sample, left.y}, look.colour, look.width);
  line.stroke->dash = look.dash;
  scene.add(std::move(line));
  if (look.marked) scene.add(series_marks(style, look, 3.6, {{left.x + sample / 2, left.y}}));
}

}  // namespace

SeriesLook series_look(const Style& style, int place) {
  const Palette& c = style.colours;
  // Sky blue and violet are not in the palette of meanings: they mean nothing but "another".
  const Colour sky = style.theme == Theme::light  ? Colour{0x56, 0xB4, 0xE9}
                     : style.theme == Theme::dark ? Colour{0x9A, 0xD6, 0xF7}
                                                  : Colour{0xB4, 0xE8, 0xFF};
  const Colour violet = style.theme == Theme::light  ? c.pivot
                        : style.theme == Theme::dark ? Colour{0x98, 0x50, 0xF8}
                                                     : Colour{0xA0, 0x70, 0xFF};
  const std::array<SeriesLook, kSeriesColours> looks{{
      {c.retained, {}, MarkerShape::circle, true},
      {c.evicted, {4.0, 1.5}, MarkerShape::circle, false},
      {c.protected_, {1.2, 1.2}, MarkerShape::square, true},
      {c.merged, {6.0, 1.5, 1.2, 1.5}, MarkerShape::diamond, true},
      {c.selection, {}, MarkerShape::triangle, false},
      {sky, {3.0, 1.2, 1.0, 1.2, 1.0, 1.2}, MarkerShape::square, false},
      {c.ink, {2.4, 1.2}, MarkerShape::triangle_down, true},
      {violet, {8.0, 2.0}, MarkerShape::diamond, false},
  }};
  SeriesLook look = looks[static_cast<std::size_t>(place % kSeriesColours)];
  const int round = place % kSeriesLooks / kSeriesColours;
  if (round == 1) {
    look.filled = !look.filled;
    look.width *= 0.55;
  } else if (round == 2) {
    look.shape = MarkerShape::star;
  }
  return look;
}

SeriesLook chance_look(const Style& style) {
  return {.colour = style.colours.faint, .dash = {4.0, 2.0}, .width = 1.0, .marked = false};
}

Markers series_marks(const Style& style, const SeriesLook& look, double size,
                     std::vector<Point> points) {
  Markers marks{
      .shape = look.shape, .size = size, .fill = look.filled ? look.colour : style.colours.paper};
  if (!look.filled) marks.stroke = Stroke{look.colour, 0.8};
  marks.points = std::move(points);
  return marks;
}

double series_label_room(const Style& style, const std::vector<std::string>& names, double most) {
  double widest = 0.0;
  for (const std::string& name : names)
    widest = std::max(widest, style.fonts->width(name, Font::regular, style.small));
  return std::min(most, sample + sample_gap + widest + 5.0);
}

void add_series_labels(Scene& scene, const Style& style, double x, double room, double top,
                       double bottom, std::vector<SeriesLabel> labels) {
  if (labels.empty()) return;
  std::stable_sort(labels.begin(), labels.end(),
                   [](const SeriesLabel& a, const SeriesLabel& b) { return a.y < b.y; });
  // Downwards until none overlap, then back up from the bottom edge.
  const double step =
      std::min(style.small * 1.25, (bottom - top) / static_cast<double>(labels.size()));
  double free = top;
  for (SeriesLabel& label : labels) {
    label.y = std::isfinite(label.y) ? std::max(label.y, free) : free;
    free = label.y + step;
  }
  double last = bottom;
  for (auto label = labels.rbegin(); label != labels.rend(); ++label) {
    label->y = std::min(label->y, last);
    last = label->y - step;
  }
  const double cap = style.fonts->cap_height() * style.small / 2;
  for (const SeriesLabel& label : labels) {
    add_sample(scene, style, label.look, {x + 3.0, label.y});
    const double from = x + 3.0 + sample + sample_gap;
    scene.add(make_text(style,
                        style.fonts->fit(label.text, Font::regular, style.small, x + room - from),
                        {from, label.y + cap}, style.small));
  }
}

double add_series_legend(Scene& scene, const Style& style, Point corner, double width,
                         const std::vector<SeriesLabel>& labels) {
  if (labels.empty()) return 0.0;
  const double row = style.small * 1.5;
  const double cap = style.fonts->cap_height() * style.small / 2;
  double x = corner.x;
  double y = corner.y;
  for (const SeriesLabel& label : labels) {
    const std::string name =
        style.fonts->fit(label.text, Font::regular, style.small, width - sample - sample_gap);
    const double wide = sample + sample_gap + style.fonts->width(name, Font::regular, style.small);
    if (x > corner.x && x + wide > corner.x + width) {
      x = corner.x;
      y += row;
    }
    add_sample(scene, style, label.look, {x, y + row / 2});
    scene.add(make_text(style, name, {x + sample + sample_gap, y + row / 2 + cap}, style.small));
    x += wide + 9.0;
  }
  return y - corner.y + row;
}

}  // namespace kvloupe::figure
