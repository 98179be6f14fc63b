#include "app/plot/map_margin.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "analysis/math/sink.h"

namespace kvloupe::figure {

namespace {

constexpr double column_gap = 2.0;   // between columns, and before the map
constexpr double least_mark = 2.0;   // width of a sink's bar
constexpr double marks_above = 9.0;  // triangles and their words
constexpr double below_strip = 7.0;  // the numbers of two axes stand one above the other
constexpr double least_strip = 8.0;
constexpr double most_strip = 26.0;

/// The plot of the strip above a map.
Rect strip_rect(const MapPlot& plot, const Rect& map) {
  return {map.x, map.y - below_strip - plot.strip, map.width, plot.strip};
}

/// The value shown for tokens [first, end): the most extreme one. NaN where there is none.
double shown(const KeyStrip& strip, int first, int end) {
  double result = std::numeric_limits<double>::quiet_NaN();
  for (int t = std::max(first, 0); t < std::min(end, static_cast<int>(strip.values.size())); ++t) {
    const double value = strip.values[static_cast<std::size_t>(t)];
    result = strip.likeness ? std::fmin(result, value) : std::fmax(result, value);
  }
  return result;
}

/// The lower end of a strip: 0, or −1 where a cosine is below.
double lowest(const KeyStrip& strip) {
  const bool below = std::any_of(strip.values.begin(), strip.values.end(),
                                 [](double value) { return value < 0.0; });
  return strip.likeness && below ? -1.0 : 0.0;
}

/// The area between 0 and the values of tokens [first, end), in steps; where several share a point,
/// one of them stands for all.
Path area_of(const Axes& axes, const KeyStrip& strip, int first, int end) {
  Path area;
  if (first >= end) return area;
  constexpr double steps_per_point = 2.0;
  const double span = std::abs(axes.x.last - axes.x.first);
  const double all = std::max(1.0, steps_per_point * axes.plot.width * (end - first) / span);
  const int steps = std::min(end - first, static_cast<int>(std::ceil(all)));
  const double ground = axes.to_page(axes.x.first, 0.0).y;
  bool open = false;
  const auto close = [&](double x) {
    if (open) area.line({x, ground}).close();
    open = false;
  };
  for (int i = 0; i < steps; ++i) {
    const auto edge = [&](int step) {
      return first + static_cast<int>(static_cast<long>(step) * (end - first) / steps);
    };
    const double value = shown(strip, edge(i), edge(i + 1));
    const double left = axes.to_page(edge(i), axes.y.first).x;
    const double right = axes.to_page(edge(i + 1), axes.y.first).x;
    if (!std::isfinite(value)) {
      close(left);
      continue;
    }
    const double top = axes.to_page(axes.x.first, value).y;
    if (!open) area.move({left, ground});
    open = true;
    area.line({left, top}).line({right, top});
    if (i + 1 == steps) close(right);
  }
  return area;
}

void add_area(Scene& scene, const Axes& axes, const KeyStrip& strip, int first, int end,
              Colour fill) {
  const int from = std::max(first, static_cast<int>(std::floor(axes.x.first)));
  const int to = std::min(end, static_cast<int>(std::ceil(axes.x.last)));
  Path area = area_of(axes, strip, from, to);
  if (area.verbs.empty()) return;
  area.fill = fill;
  scene.add(std::move(area));
}

/// A bar and a triangle to each sink in sight; their name and strength, beside the last.
void add_sink_marks(Scene& scene, const Style& style, const Axes& axes, const KeyStrip& strip) {
  Path bars, ground;
  Markers marks{
      .shape = MarkerShape::triangle_down, .size = 4.5, .stroke = Stroke{style.colours.ink, 0.7}};
  double strongest = 0.0;
  for (const int token : strip.sinks) {
    if (token + 1.0 <= axes.x.first || token >= axes.x.last) continue;
    const double value = strip.values[static_cast<std::size_t>(token)];
    strongest = std::max(strongest, value);
    double left = axes.to_page(token, axes.y.first).x;
    double width = axes.to_page(token + 1.0, axes.y.first).x - left;
    if (width < least_mark) {
      left -= (least_mark - width) / 2;
      width = least_mark;
    }
    left = std::clamp(left, axes.plot.x, std::max(axes.plot.x, axes.plot.right() - width));
    width = std::min(width, axes.plot.right() - left);
    const double top = axes.to_page(axes.x.first, value).y;
    const double zero = axes.to_page(axes.x.first, 0.0).y;
    ground.rect({left, axes.plot.y, width, axes.plot.height});
    bars.rect({left, std::min(top, zero), width, std::max(0.5, std::abs(zero - top))});
    marks.points.push_back({left + width / 2, axes.plot.y - 4.0});
  }
  if (marks.points.empty()) return;
  if (strip.likeness) {  // a low bar among high ones
    ground.fill = style.colours.paper;
    scene.add(std::move(ground));
  }
  bars.fill = style.colours.ink;
  scene.add(std::move(bars));
  const bool one = marks.points.size() == 1;
  const double last = marks.points.back().x;
  scene.add(std::move(marks));
  if (strip.likeness) return;  // how strong they are, the other strip says
  const std::string words =
      (one ? "sink, " : "sinks, up to ") + format_number(std::min(strongest, 1.0), 2);
  Text name = make_text(style, words, {last + 5.0, axes.plot.y - 2.0}, style.small);
  name.colour = style.colours.faint;
  if (name.anchor.x + name.width > scene.width) {
    name.align = Align::right;
    name.anchor.x = last - 5.0;
  }
  if (name.start().x >= 0.0) scene.add(std::move(name));
}

}  // namespace

double sink_columns_room(std::size_t columns) {
  return static_cast<double>(columns) * (sink_column_width + column_gap);
}

void leave_margins(MapPlot& plot, const KeyStrip& strip, std::size_t columns, double height) {
  if (!strip.values.empty()) {
    plot.strip = std::clamp(0.12 * height, least_strip, most_strip);
    plot.top += plot.strip + below_strip + (strip.sinks.empty() ? 0.0 : marks_above);
  }
  plot.inset = sink_columns_room(columns);
}

void add_key_strip(Scene& scene, const Style& style, const MapPlot& plot, const Rect& map,
                   const KeyStrip& strip) {
  if (strip.values.empty()) return;
  const Axis y{AxisMeaning::value, AxisScale::linear, 1.0, lowest(strip), ""};
  const Axes axes{strip_rect(plot, map), plot.x, y};
  const Palette& c = style.colours;
  const int length = static_cast<int>(strip.values.size());
  const int pale = std::clamp(strip.pale_from, 0, length);
  scene.add(PushClip{axes.plot});
  add_area(scene, axes, strip, 0, pale, c.both);
  add_area(scene, axes, strip, pale, length, c.neither);
  scene.add(PopClip{});
  add_sink_marks(scene, style, axes, strip);
  AxisLook x_look, y_look;
  x_look.labels = false;
  if (axes.plot.height >= 1.2 * style.small) {
    y_look.ticks = {{y.last, y.last < 0.0 ? "−1" : "0"}, {1.0, "1"}};
  } else {
    y_look.ticks = {{1.0, "1"}};
  }
  add_axes(scene, style, axes, x_look, y_look);
  // The name of the strip is inside, where the later keys leave room: the longest words that fit.
  const char* longest = strip.likeness ? "mean cosine to the others" : "mean attention received";
  const char* shorter = strip.likeness ? "mean cosine" : "mean received";
  for (const char* words : {longest, shorter, "mean"}) {
    Text name = make_text(
        style, words,
        {axes.plot.right() - 1.0, axes.plot.y + style.fonts->cap_height() * style.small + 1.0},
        style.small, Font::regular, Align::right);
    if (name.width > 0.7 * axes.plot.width || axes.plot.height < 1.2 * style.small) continue;
    name.colour = c.faint;
    scene.add(std::move(name));
    break;
  }
}

void add_sink_columns(Scene& scene, const Style& style, const MapPlot& plot, const Rect& map,
                      const std::vector<SinkColumn>& columns, std::pair<double, double> covers) {
  Path outlines;
  for (std::size_t i = 0; i < columns.size(); ++i) {
    const SinkColumn& column = columns[i];
    const Rect rect{map.x - plot.inset + static_cast<double>(i) * (sink_column_width + column_gap),
                    map.y, sink_column_width, map.height};
    Axes axes{rect, {}, plot.y};
    axes.x = {AxisMeaning::token, AxisScale::linear, static_cast<double>(column.token),
              column.token + 1.0, plot.x.label};
    const double top = axes.to_page(column.token, covers.first).y;
    const double bottom = axes.to_page(column.token, covers.second).y;
    auto pixels = paint(column.values, 1, static_cast<int>(column.values.size()), plot.scale);
    scene.add(PushClip{rect});
    add_image(scene, std::move(pixels), {rect.x, top, rect.width, bottom - top});
    scene.add(PopClip{});
    // Its own cell and below: queries before it do not see it.
    const double from =
        std::clamp(axes.to_page(column.token, column.token).y, rect.y, rect.bottom() - 1.0);
    outlines.rect({rect.x, from, rect.width, rect.bottom() - from});
    AxisLook x_look, y_look;
    x_look.labels = x_look.line = false;
    if (i == 0) {
      y_look = axis_look(style, plot.y, map.height, false);
    } else {
      y_look.labels = y_look.line = false;
    }
    add_axes(scene, style, axes, x_look, y_look);
  }
  add_stroked(scene, std::move(outlines), {style.colours.ink, 0.7});
}

int first_uncertain(int length, const Reach& reach) {
  // Through a window or chunk of few tokens all keys are seen by few.
  constexpr int few = 8;
  if (!reach.all() && reach.span() < few) return 0;
  return std::max(0, length - std::max(few, length / 20) + 1);
}

std::vector<int> sinks_among(const std::vector<double>& received, int first, int last,
                             const Reach& reach) {
  std::vector<int> sinks;
  const int end = std::min(last + 1, first_uncertain(static_cast<int>(received.size()), reach));
  for (int t = first; t < end; ++t) {
    if (received[static_cast<std::size_t>(t)] > static_cast<double>(kSinkHead)) sinks.push_back(t);
  }
  return sinks;
}

std::vector<int> strongest_sinks(const KeyStrip& strip) {
  constexpr std::size_t most = 3;
  std::vector<int> tokens = strip.sinks;
  std::stable_sort(tokens.begin(), tokens.end(), [&](int a, int b) {
    return strip.values[static_cast<std::size_t>(a)] > strip.values[static_cast<std::size_t>(b)];
  });
  if (tokens.size() > most) tokens.resize(most);
  std::sort(tokens.begin(), tokens.end());
  return tokens;
}

}  // namespace kvloupe::figure
