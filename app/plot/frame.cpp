#include "app/plot/frame.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

namespace kvloupe::figure {

namespace {

constexpr double tick_length = 2.5;
constexpr double tick_gap = 2.0;  // between a tick and its label
constexpr double name_gap = 3.0;  // between labels and the axis' name
constexpr double bar_gap = 7.0;   // between a map and its colour bar
constexpr double bar_width = 6.0;
constexpr double bar_overhang = 8.0;  // of the bar's name
constexpr double widest_name = 92.0;  // of a cell that is named; what is longer is cut
constexpr double least_name = 16.0;   // on a short axis they are cut more

double widest_label(const Style& style, const std::vector<Tick>& ticks) {
  double widest = 0.0;
  for (const Tick& tick : ticks) {
    widest = std::max(widest, style.fonts->width(tick.label, Font::regular, style.small));
  }
  return widest;
}

constexpr double name_leading = 1.15;  // of the text's size, between the lines of a name

double names_height(const Style& style, int lines) {
  return style.text * (1.0 + name_leading * (lines - 1));
}

/// An axis' name read upwards, its lines from left to right; the last one's letters end before `x`.
void add_turned_name(Scene& scene, const Style& style, const std::vector<std::string>& lines,
                     Point middle) {
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const double before = name_leading * style.text * static_cast<double>(lines.size() - 1 - i);
    Text name = make_text(style, lines[i], {middle.x - before, middle.y}, style.text, Font::regular,
                          Align::centre);
    name.turned = true;
    scene.add(std::move(name));
  }
}

/// How long a name centred on a side may be: a little longer than the side, and on the page.
double name_room(double middle, double side, double page, double overhang) {
  return std::min(side + 2 * overhang, 2.0 * (std::min(middle, page - middle) - 1.0));
}

/// The ticks that `ticks` gives for at most `most`. One number is not a scale: where there are
/// fewer than two, a larger count is tried, and the first ticks that `fit` are taken, all of them
/// or the first and the last; one where two do not fit.
template <typename Ticks, typename Fit>
std::vector<Tick> at_least_two(const Ticks& ticks, int most, const Fit& fit) {
  std::vector<Tick> few = ticks(most);
  for (int more = most + 1; few.size() < 2 && more <= most + 8; ++more) {
    std::vector<Tick> found = ticks(more);
    if (found.size() < 2) continue;
    if (!fit(found)) found = {found.front(), found.back()};
    if (fit(found)) return found;
    if (few.empty()) few = {found.back()};
  }
  return few;
}

std::vector<Tick> bar_ticks(const Style& style, const ColourScale& scale, double height) {
  const int most = std::clamp(static_cast<int>(height / (style.small * 3.0)), 2, 6);
  const auto ticks = [&](int count) {
    return scale.scale == AxisScale::log ? log_ticks(scale.low, scale.high, count)
                                         : linear_ticks(scale.low, scale.high, count);
  };
  return at_least_two(ticks, most, [&](const std::vector<Tick>& some) {
    return static_cast<double>(some.size()) * style.small <= height;
  });
}

/// `text` cut in its middle, so that its end is seen, too.
std::string with_its_end(const Style& style, const std::string& text, double widest) {
  const auto width = [&](const std::string& part) {
    return style.fonts->width(part, Font::regular, style.small);
  };
  std::vector<std::size_t> characters;  // where they begin
  for (std::size_t byte = 0; byte < text.size(); next_character(text, byte))
    characters.push_back(byte);
  std::size_t end = text.size();
  while (!characters.empty() && width(text.substr(characters.back())) <= 0.5 * widest) {
    end = characters.back();
    characters.pop_back();
  }
  const std::string tail = text.substr(end);
  return style.fonts->fit(text.substr(0, end), Font::regular, style.small, widest - width(tail)) +
         tail;
}

/// Names of which one is too long, as they fit below `widest`: cut at their ends, and those that
/// would then look alike in their middle (variants of one policy begin alike).
std::vector<std::string> cut_names(const Style& style, const std::vector<std::string>& names,
                                   double widest) {
  std::vector<std::string> cut;
  std::map<std::string, std::string> seen;  // a cut name, and the first that it stands for
  std::set<std::string> alike;
  for (const std::string& name : names) {
    cut.push_back(fit_words(style, name, style.small, widest));
    if (seen.try_emplace(cut.back(), name).first->second != name) alike.insert(cut.back());
  }
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (alike.count(cut[i]) > 0) cut[i] = with_its_end(style, names[i], widest);
  }
  return cut;
}

/// Whether the names count: 0, 1, 2, … For such names, some are enough.
bool is_count(const std::vector<std::string>& names) {
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (names[i] != std::to_string(i)) return false;
  }
  return names.size() > 2;
}

/// The least of 1, 2, 5, 10, 20, … that is not below `least`.
int step_of_names(double least) {
  for (int power = 1;; power *= 10) {
    for (const int digit : {1, 2, 5}) {
      if (digit * power >= least - 1e-9) return digit * power;
    }
  }
}

/// The names of an axis' cells, cut to fit; every second, third, ... where they are too close. An
/// empty name is a gap; the one after it is another thing than those before, and always there.
AxisLook names_look(const Style& style, const Axis& axis, double length, bool horizontal) {
  AxisLook look;
  const double cell = length / std::max(1.0, std::abs(axis.last - axis.first));
  const double line = style.small * 1.15;
  int every = std::max(1, static_cast<int>(std::ceil(line / std::max(cell, 0.1) - 1e-9)));
  const double low = std::min(axis.first, axis.last);
  const double high = std::max(axis.first, axis.last);
  const double widest = std::min(widest_name, least_name + 0.7 * length);
  const int count = static_cast<int>(axis.names.size());
  const std::vector<std::string> cut = cut_names(style, axis.names, widest);
  const bool counted = is_count(axis.names);
  if (counted && horizontal) {  // fewer numbers, not turned ones
    const double number = style.fonts->width(cut.back(), Font::regular, style.small);
    every = step_of_names((number + 0.6 * style.small) / std::max(cell, 0.1));
  }
  const auto name = [&](int i) -> const std::string& {
    return axis.names[static_cast<std::size_t>(i)];
  };
  const auto follows_gap = [&](int i) {
    return i > 0 && i < count && name(i - 1).empty() && !name(i).empty();
  };
  const auto has_room = [&](int i) {
    if (i % every != 0) return false;
    for (int next = i + 1; next < i + every; ++next) {
      if (follows_gap(next)) return false;
    }
    return true;
  };
  for (int i = 0; i < count; ++i) {
    const double at = i + 0.5;
    if (name(i).empty() || at < low || at > high) continue;
    if (!follows_gap(i) && !has_room(i)) continue;
    look.ticks.push_back({at, cut[static_cast<std::size_t>(i)]});
  }
  look.turned =
      horizontal && !counted && widest_label(style, look.ticks) > cell * every - 0.6 * style.small;
  return look;
}

}  // namespace

Scene make_scene(const Style& style, double width, double height) {
  Scene scene;
  scene.width = width;
  scene.height = height;
  scene.background = style.colours.paper;
  return scene;
}

Text make_text(const Style& style, std::string text, Point anchor, double size, Font font,
               Align align) {
  Text item;
  item.width = style.fonts->width(text, font, size);
  item.text = std::move(text);
  item.anchor = anchor;
  item.size = size;
  item.font = font;
  item.align = align;
  item.colour = style.colours.ink;
  return item;
}

Path make_line(Point from, Point to, Colour colour, double width, std::vector<double> dash) {
  Path path;
  path.move(from).line(to);
  path.stroke = Stroke{colour, width, std::move(dash)};
  return path;
}

void add_stroked(Scene& scene, Path path, Stroke stroke) {
  if (path.verbs.empty()) return;
  path.stroke = std::move(stroke);
  scene.add(std::move(path));
}

std::vector<std::string> wrap(const Style& style, const std::string& text, double size,
                              double width) {
  std::vector<std::string> lines;
  std::string line;
  std::size_t at = 0;
  while (at < text.size()) {
    const std::size_t end = std::min(text.find(' ', at), text.size());
    const std::string word = text.substr(at, end - at);
    at = end + 1;
    if (word.empty()) continue;
    const std::string longer = line.empty() ? word : line + " " + word;
    if (line.empty() || style.fonts->width(longer, Font::regular, size) <= width) {
      line = longer;
    } else {
      lines.push_back(line);
      line = word;
    }
  }
  if (!line.empty()) lines.push_back(line);
  // A single word wider than the line (a path, a formula) is cut.
  for (std::string& one : lines) one = style.fonts->fit(one, Font::regular, size, width);
  return lines;
}

std::string fit_words(const Style& style, const std::string& text, double size, double width) {
  const auto is_wide = [&](const std::string& part) {
    return style.fonts->width(part, Font::regular, size) > width;
  };
  if (!is_wide(text)) return text;
  for (std::size_t end = text.size(); end-- > 1;) {
    const char c = text[end];
    const bool after = text[end - 1] == ',' || text[end - 1] == '(';  // there is more of a list
    if (!after && c != ' ' && c != '(' && c != ',') continue;
    std::string words = text.substr(0, end) + "…";
    if (!is_wide(words)) return words;
  }
  return style.fonts->fit(text, Font::regular, size, width);
}

std::vector<std::string> break_lines(const Style& style, const std::string& text, double size,
                                     double width, int most) {
  std::vector<std::string> lines;
  std::size_t from = 0;
  while (static_cast<int>(lines.size()) + 1 < most) {
    const std::string rest = text.substr(from);
    if (style.fonts->width(rest, Font::regular, size) <= width) break;
    // Of brackets: what they hold stays together if it can, and with the word before them.
    std::size_t outside = 0, inside = 0, bracket = 0;
    int depth = 0;
    for (std::size_t end = 1; end < rest.size(); ++end) {
      depth += rest[end - 1] == '(' ? 1 : rest[end - 1] == ')' ? -1 : 0;
      const bool may = rest[end - 1] == ' ' || rest[end - 1] == ',' || rest[end] == '+';
      if (!may && rest[end] != '(') continue;
      if (style.fonts->width(rest.substr(0, end), Font::regular, size) > width) break;
      (!may ? bracket : depth > 0 ? inside : outside) = end;
    }
    const std::size_t best = outside > 0 ? outside : inside > 0 ? inside : bracket;
    if (best == 0) break;
    lines.push_back(rest.substr(0, rest[best - 1] == ' ' ? best - 1 : best));
    from += best;
  }
  lines.push_back(fit_words(style, text.substr(from), size, width));
  return lines;
}

AxisLook axis_look(const Style& style, const Axis& axis, double length, bool horizontal) {
  if (!axis.names.empty()) return names_look(style, axis, length, horizontal);
  AxisLook look;
  const auto ticks = [&](int most) {
    if (axis.scale == AxisScale::log) return log_ticks(axis.first, axis.last, most);
    if (axis.meaning == AxisMeaning::value) return linear_ticks(axis.first, axis.last, most);
    if (!axis.knee) return index_ticks(axis.first, axis.last, most);
    // Each part has round numbers of its own, as many as it bears.
    const auto part = [&](double share) {
      return std::max(1, static_cast<int>(std::lround(most * share)));
    };
    std::vector<Tick> both = index_ticks(axis.first, *axis.knee, part(axis.knee_share));
    for (Tick& tick : index_ticks(*axis.knee, axis.last, part(1.0 - axis.knee_share))) {
      const double away =
          both.empty()
              ? length
              : length * std::abs(axis.share_of(tick.value) - axis.share_of(both.back().value));
      if (away >= 1.5 * style.small) both.push_back(std::move(tick));
    }
    return both;
  };
  const bool few = axis.meaning == AxisMeaning::layer || axis.meaning == AxisMeaning::head;
  int most = std::clamp(static_cast<int>(length / (style.small * (few          ? 1.6
                                                                  : horizontal ? 3.6
                                                                               : 3.0))),
                        2, few ? 40 : 7);
  const auto fit = [&](const std::vector<Tick>& some) {
    const double room = horizontal ? widest_label(style, some) + 0.6 * style.small : style.small;
    for (std::size_t i = 1; i < some.size(); ++i) {
      const double share = axis.share_of(some[i].value) - axis.share_of(some[i - 1].value);
      if (std::abs(share) * length < room) return false;
    }
    return true;
  };
  look.ticks = ticks(most);
  while (most > 1 && !fit(look.ticks)) look.ticks = ticks(--most);
  look.ticks = at_least_two(ticks, most, fit);
  return look;
}

int name_lines(const Style& style, const std::string& name, double room) {
  return style.fonts->width(name, Font::regular, style.text) > room ? 2 : 1;
}

double left_margin(const Style& style, const Axis& y, const AxisLook& look) {
  double margin = look.ticks.empty() ? 0.0 : tick_length;
  if (look.labels) {
    if (!look.ticks.empty()) margin += tick_gap + widest_label(style, look.ticks);
    if (!y.label.empty()) margin += name_gap + names_height(style, look.name_lines);
  }
  return margin + 1.0;
}

double bottom_margin(const Style& style, const Axis& x, const AxisLook& look) {
  double margin = look.ticks.empty() ? 0.0 : tick_length;
  if (look.labels) {
    if (!look.ticks.empty())
      margin += tick_gap + (look.turned ? widest_label(style, look.ticks) : style.small);
    if (!x.label.empty()) margin += name_gap + names_height(style, look.name_lines);
  }
  return margin + 1.0;
}

bool x_name_fits(const Style& style, const Axes& axes, double page) {
  return style.fonts->width(axes.x.label, Font::regular, style.text) <=
         name_room(axes.plot.centre().x, axes.plot.width, page, x_overhang);
}

void add_axes(Scene& scene, const Style& style, const Axes& axes, const AxisLook& x,
              const AxisLook& y) {
  const Rect& plot = axes.plot;
  const Stroke ink{style.colours.ink, style.line};
  const double cap = style.fonts->cap_height();

  Path grid;
  Path lines;
  double left = 0.0;
  for (const Tick& tick : y.ticks) {
    const double at = plot.y + plot.height * axes.y.share_of(tick.value);
    if (at < plot.y - 0.01 || at > plot.bottom() + 0.01) continue;
    if (y.grid) grid.move({plot.x, at}).line({plot.right(), at});
    lines.move({plot.x, at}).line({plot.x - tick_length, at});
    if (!y.labels) continue;
    Text& label = scene.add(make_text(style, tick.label,
                                      {plot.x - tick_length - tick_gap, at + cap * style.small / 2},
                                      style.small, Font::regular, Align::right));
    left = std::max(left, label.width);
  }
  for (const Tick& tick : x.ticks) {
    const double at = plot.x + plot.width * axes.x.share_of(tick.value);
    if (at < plot.x - 0.01 || at > plot.right() + 0.01) continue;
    if (x.grid) grid.move({at, plot.y}).line({at, plot.bottom()});
    lines.move({at, plot.bottom()}).line({at, plot.bottom() + tick_length});
    if (!x.labels) continue;
    if (x.turned) {
      Text& label = scene.add(make_text(
          style, tick.label, {at + cap * style.small / 2, plot.bottom() + tick_length + tick_gap},
          style.small, Font::regular, Align::right));
      label.turned = true;
      continue;
    }
    scene.add(make_text(style, tick.label,
                        {at, plot.bottom() + tick_length + tick_gap + cap * style.small},
                        style.small, Font::regular, Align::centre));
  }
  if (y.line) lines.move({plot.x, plot.y}).line({plot.x, plot.bottom()});
  if (x.line) lines.move({plot.x, plot.bottom()}).line({plot.right(), plot.bottom()});
  if (!grid.verbs.empty()) {
    grid.stroke = Stroke{style.colours.grid, 0.4};
    scene.items.insert(scene.items.begin(), std::move(grid));
  }
  add_stroked(scene, std::move(lines), ink);
  if (y.labels && !axes.y.label.empty()) {
    const double from = plot.x - (y.ticks.empty() ? 0.0 : tick_length + tick_gap + left) - name_gap;
    add_turned_name(scene, style,
                    break_lines(style, axes.y.label, style.text,
                                name_room(plot.centre().y, plot.height, scene.height, y.overhang),
                                y.name_lines),
                    {from - 0.22 * style.text, plot.centre().y});
  }
  if (x.labels && x.named && !axes.x.label.empty()) {
    const double below =
        x.ticks.empty()
            ? 0.0
            : tick_length + tick_gap + (x.turned ? widest_label(style, x.ticks) : style.small);
    const bool placed = x.name_to > x.name_from;
    const double from = placed ? x.name_from : plot.x, to = placed ? x.name_to : plot.right();
    const double room = name_room((from + to) / 2, to - from, scene.width, x_overhang);
    double base = plot.bottom() + below + name_gap + cap * style.text;
    for (std::string& line : break_lines(style, axes.x.label, style.text, room, x.name_lines)) {
      scene.add(make_text(style, std::move(line), {(from + to) / 2, base}, style.text,
                          Font::regular, Align::centre));
      base += name_leading * style.text;
    }
  }
  scene.axes.push_back(axes);
}

ColourLookup::ColourLookup(const ColourScale& scale)
    : scale_(scale), table_(scale.is_signed ? signed_table() : amount_table(scale.map)) {
  const bool log = scale.scale == AxisScale::log;
  from_ = log ? std::log(scale.low) : scale.low;
  const double to = log ? std::log(scale.high) : scale.high;
  factor_ = to > from_ ? 255.0 / (to - from_) : 0.0;
}

Colour ColourLookup::operator()(double value) const {
  if (std::isnan(value)) return {0, 0, 0, 0};
  if (scale_.scale == AxisScale::log) value = value > 0 ? std::log(value) : from_;
  const double at = std::clamp((value - from_) * factor_, 0.0, 255.0);
  return table_[static_cast<std::size_t>(at + 0.5)];
}

std::shared_ptr<const Pixels> paint(std::span<const float> values, int width, int height,
                                    const ColourScale& scale) {
  const ColourLookup lookup(scale);
  auto pixels = std::make_shared<Pixels>();
  pixels->width = width;
  pixels->height = height;
  pixels->rgba.resize(values.size() * 4);
  std::uint8_t* out = pixels->rgba.data();
  for (const float value : values) {
    const Colour c = lookup(static_cast<double>(value));
    *out++ = c.red;
    *out++ = c.green;
    *out++ = c.blue;
    *out++ = c.alpha;
  }
  return pixels;
}

namespace {
/// Equal keys mean equal pixels: their size and a 64-bit hash.
std::string image_key(const Pixels& pixels) {
  std::uint64_t hash = 14695981039346656037ULL;  // FNV-1a, four bytes at a time
  for (std::size_t i = 0; i + 3 < pixels.rgba.size(); i += 4) {
    const std::uint32_t word = static_cast<std::uint32_t>(pixels.rgba[i]) |
                               static_cast<std::uint32_t>(pixels.rgba[i + 1]) << 8 |
                               static_cast<std::uint32_t>(pixels.rgba[i + 2]) << 16 |
                               static_cast<std::uint32_t>(pixels.rgba[i + 3]) << 24;
    hash = (hash ^ word) * 1099511628211ULL;
    hash ^= hash >> 29;
  }
  return fmt::format("{}x{}-{:016x}", pixels.width, pixels.height, hash);
}
}  // namespace

void add_image(Scene& scene, std::shared_ptr<const Pixels> pixels, const Rect& rect) {
  std::string key = image_key(*pixels);
  scene.add(Image{std::move(pixels), rect, std::move(key), Interpolation::nearest});
}

double colour_bar_width(const Style& style, const ColourScale& scale, double height) {
  double width = bar_gap + bar_width + tick_length + tick_gap +
                 widest_label(style, bar_ticks(style, scale, height));
  if (!scale.label.empty()) {
    width +=
        name_gap + names_height(style, name_lines(style, scale.label, height + 2 * bar_overhang));
  }
  return width + 1.0;
}

void add_colour_bar(Scene& scene, const Style& style, const Rect& plot, const ColourScale& scale) {
  const Rect bar{plot.right() + bar_gap, plot.y, bar_width, plot.height};
  auto pixels = std::make_shared<Pixels>();
  pixels->width = 1;
  pixels->height = 256;
  const auto table = scale.is_signed ? signed_table() : amount_table(scale.map);
  for (int i = 255; i >= 0; --i) {
    const Colour c = table[static_cast<std::size_t>(i)];
    pixels->rgba.insert(pixels->rgba.end(), {c.red, c.green, c.blue, c.alpha});
  }
  add_image(scene, std::move(pixels), bar);
  Path outline;
  outline.rect(bar);
  add_stroked(scene, std::move(outline), {style.colours.ink, 0.4});

  const Axis axis{AxisMeaning::value, scale.scale, scale.high, scale.low, scale.label};
  scene.axes.push_back({bar, Axis{}, axis});  // so that its limits can be dragged on the screen
  const double cap = style.fonts->cap_height();
  Path lines;
  double widest = 0.0;
  for (const Tick& tick : bar_ticks(style, scale, plot.height)) {
    const double y = bar.y + bar.height * axis.share_of(tick.value);
    lines.move({bar.right(), y}).line({bar.right() + tick_length, y});
    Text& label = scene.add(
        make_text(style, tick.label,
                  {bar.right() + tick_length + tick_gap, y + cap * style.small / 2}, style.small));
    widest = std::max(widest, label.width);
  }
  add_stroked(scene, std::move(lines), {style.colours.ink, style.line});
  if (!scale.label.empty()) {
    const double x = bar.right() + tick_length + tick_gap + widest + name_gap + 0.75 * style.text;
    const double room = name_room(bar.centre().y, bar.height, scene.height, bar_overhang);
    const double more = name_leading * style.text;
    const int most = x + more + 0.25 * style.text <= scene.width ? 2 : 1;
    const auto lines = break_lines(style, scale.label, style.text, room, most);
    add_turned_name(scene, style, lines,
                    {x + more * static_cast<double>(lines.size() - 1), bar.centre().y});
  }
}

namespace {
constexpr double key_size = 5.0;    // points; of a legend's marker
constexpr double area_width = 9.0;  // of an area with a pattern
constexpr double line_length = 14.0;

double key_width(const LegendEntry& entry) {
  if (entry.line) return line_length;
  return entry.pattern == Pattern::none ? key_size : area_width;
}

void add_key(Scene& scene, const LegendEntry& entry, Point left) {
  if (entry.line) {
    Path line = make_line(left, {left.x + line_length, left.y}, entry.line->colour, 1.0);
    line.stroke = entry.line;
    scene.add(std::move(line));
    if (!entry.fill && !entry.stroke) return;
  }
  if (entry.pattern == Pattern::none) {
    scene.add(Markers{.shape = entry.shape,
                      .size = key_size - (entry.stroke ? entry.stroke->width : 0.0),
                      .fill = entry.fill,
                      .stroke = entry.stroke,
                      .points = {{left.x + (entry.line ? line_length : key_size) / 2, left.y}}});
    return;
  }
  const Rect area{left.x, left.y - key_size / 2, area_width, key_size};
  Path box;
  box.rect(area);
  box.fill = entry.fill;
  box.stroke = entry.stroke;
  scene.add(std::move(box));
  PatternFill fill(entry.pattern, entry.pattern_colour);
  fill.cover(area);
  fill.add_to(scene);
}
}  // namespace

double add_legend(Scene& scene, const Style& style, Point corner, double width,
                  std::span<const LegendEntry> entries) {
  if (entries.empty()) return 0.0;
  const double row = style.small * 1.5;
  double x = corner.x;
  double y = corner.y;
  for (const LegendEntry& entry : entries) {
    const double key = key_width(entry);
    const std::string name =
        style.fonts->fit(entry.label, Font::regular, style.small, width - key - 3.0);
    const double wide = key + 3.0 + style.fonts->width(name, Font::regular, style.small);
    if (x > corner.x && x + wide > corner.x + width) {
      x = corner.x;
      y += row;
    }
    add_key(scene, entry, {x, y + row / 2});
    scene.add(make_text(style, name,
                        {x + key + 3.0, y + row / 2 + style.fonts->cap_height() * style.small / 2},
                        style.small));
    x += wide + 9.0;
  }
  return y - corner.y + row;
}

void add_panel_letter(Scene& scene, const Style& style, int panel, Point corner) {
  scene.add(make_text(style, std::string(1, static_cast<char>('a' + panel)),
                      {corner.x, corner.y + style.fonts->cap_height() * style.text},
                      style.text + 1.0, Font::bold));
}

Colour ink_on(Colour ground) {
  constexpr Colour dark{0x1B, 0x1F, 0x24};
  constexpr Colour light{0xFF, 0xFF, 0xFF};
  return contrast(dark, ground) >= contrast(light, ground) ? dark : light;
}

void add_on_grounds(Scene& scene, const Style& style, std::vector<Text> texts,
                    std::span<const Colour> grounds) {
  const bool plates = style.theme == Theme::high_contrast;
  Path plate;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    if (grounds[i].alpha == 0) continue;
    if (plates) {
      const Rect box = texts[i].bounds();
      plate.rect({box.x - 1.0, box.y, box.width + 2.0, box.height});
    } else {
      texts[i].colour = ink_on(grounds[i]);
    }
  }
  if (!plate.verbs.empty()) {
    plate.fill = style.colours.paper;
    scene.add(std::move(plate));
  }
  for (Text& text : texts) scene.add(std::move(text));
}

}  // namespace kvloupe::figure
