#include "app/figure/segment_band.h"

#include <fmt/format.h>

#include <algorithm>

#include "app/plot/ticks.h"

namespace kvloupe::figure {

namespace {
// Too narrow to be seen as a band (often the one token that starts the text): no name either.
constexpr double narrowest_named = 1.5;
constexpr double gap = 4.0;          // points; between two names
constexpr double band_top = 4.0;     // above the plot
constexpr double band_height = 2.5;  // and a name stands as far above the band

constexpr int most_rounds = 8;  // of asking which names are in the way of others

double row_height(const Style& style) { return style.small * 1.35; }

double width_of(const Style& style, const std::string& text) {
  return style.fonts->width(text, Font::regular, style.small);
}
}  // namespace

SegmentBand::SegmentBand(const TokenTable& tokens) {
  for (std::size_t t = 0; t < tokens.segment.size(); ++t) {
    const std::uint8_t id = tokens.segment[t];
    add(id < tokens.segment_names.size() ? tokens.segment_names[id] : std::string(),
        static_cast<int>(t));
  }
}

SegmentBand::SegmentBand(const Trace& trace, const GivenTokens& given) {
  const bool named = !trace.tokens().segment.empty() || !given.range.empty();
  for (int token = 0; named && token < trace.length(); ++token)
    add(part_name(trace, given, token), token);
  for (const GivenTokens::Other& other : given.others) others_.push_back(other.token);
}

void SegmentBand::add(const std::string& name, int token) {
  if (segments_.empty() || segments_.back().name != name) segments_.push_back({name, token, token});
  segments_.back().end = token + 1;
}

double SegmentBand::height(const Style& style, bool two_rows) const {
  return segments_.empty() ? 0.0 : (two_rows ? 2.0 : 1.0) * row_height(style) + band_top;
}

bool SegmentBand::needs_two_rows(const Style& style, const Axes& axes) const {
  const std::vector<Name> all = names(style, axes, true);
  return std::any_of(all.begin(), all.end(), [](const Name& one) { return !one.lines.empty(); });
}

void SegmentBand::draw(Scene& scene, const Style& style, const Axes& axes, bool two_rows) const {
  bool dark = false;
  const double top = axes.plot.y - band_top;
  for (const Segment& segment : segments_) {
    const auto [a, b] = span_of(segment, axes);
    dark = !dark;
    if (b - a < 0.1) continue;
    Path path;
    path.rect({a, top, b - a, band_height});
    path.fill = dark ? style.colours.neither : style.colours.both;
    scene.add(std::move(path));
  }
  Path marks;
  for (const int token : others_) {
    const double x = axes.to_page(token + 0.5, axes.y.first).x;
    if (x < axes.plot.x || x > axes.plot.right()) continue;
    marks.move({x, top - 0.5}).line({x, axes.plot.y});
  }
  add_stroked(scene, std::move(marks), {style.colours.evicted, 1.0});
  for (const Name& one : names(style, axes, two_rows)) {
    const double foot = top - band_height - (one.lines.empty() ? 0.0 : row_height(style));
    for (const double line : one.lines)
      scene.add(make_line({line, foot + 2.0}, {line, top}, style.colours.faint, 0.5));
    Text name = make_text(style, one.text, {one.x, foot}, style.small);
    name.colour = style.colours.faint;
    scene.add(std::move(name));
  }
}

/// The visible part of a segment on the page, from where to where.
std::pair<double, double> SegmentBand::span_of(const Segment& segment, const Axes& axes) {
  return {std::max(axes.plot.x, axes.to_page(segment.first, axes.y.first).x),
          std::min(axes.plot.right(), axes.to_page(segment.end, axes.y.first).x)};
}

std::vector<SegmentBand::Name> SegmentBand::names(const Style& style, const Axes& axes,
                                                  bool two_rows) const {
  std::vector<Place> places;  // a page has room for some hundreds, however many segments there are
  for (const Segment& segment : segments_) {
    const auto [from, to] = span_of(segment, axes);
    if (to - from >= narrowest_named) places.push_back({segment.name, from, to});
  }
  if (!two_rows) return lower_row(style, axes, places, {});
  const auto named = [](const std::vector<Name>& all) {  // how many kinds of segments
    std::set<std::string> found;
    std::size_t joined = 0;
    for (const Name& one : all) {
      found.insert(one.text);
      joined += one.lines.size() > 1 ? 1 : 0;
    }
    return found.size() + joined;
  };
  std::vector<Name> best;
  std::set<std::size_t> in_the_way;
  for (int round = 0; round < most_rounds; ++round) {
    std::vector<Name> all = lower_row(style, axes, places, in_the_way);
    const std::size_t before = in_the_way.size();
    in_the_way.merge(add_upper_row(style, axes, places, all));
    if (best.empty() || named(all) > named(best)) best = std::move(all);
    // Names in the way go up, too, if then more kinds of segments have one.
    if (in_the_way.size() == before) break;
  }
  return best;
}

/// The lower row, without the names of the places in `left_out`.
std::vector<SegmentBand::Name> SegmentBand::lower_row(const Style& style, const Axes& axes,
                                                      const std::vector<Place>& places,
                                                      const std::set<std::size_t>& left_out) {
  std::vector<Name> row;
  double free_from = axes.plot.x;
  for (std::size_t i = 0; i < places.size(); ++i) {
    if (left_out.contains(i)) continue;
    // A short segment's name may be wider than the segment and stand beside its middle. It must not
    // cover another name, or stand where it could be the name of another segment.
    const auto& [text, from, to] = places[i];
    const double width = width_of(style, text);
    const double last = axes.plot.right() - width;
    const double x = std::max(std::min(places[i].middle() - width / 2, last), free_from);
    if (x > last) continue;
    const double middle = x + width / 2;
    const auto is_under = [&](const Place& one) { return x <= one.from && one.to <= x + width; };
    const bool alone =
        is_under(places[i]) && std::count_if(places.begin(), places.end(), is_under) == 1;
    if (!(from <= middle && middle <= to) && !alone) continue;
    free_from = x + width + gap;
    row.push_back({text, x, width, {}, i});
  }
  return row;
}

/// Adds the names that no segment has in the lower row: each once, those of neighbours together
/// ("question · answer"), also where the first goes on behind tokens too few to be seen. Returns
/// the places in the lower row whose names are in the way.
std::set<std::size_t> SegmentBand::add_upper_row(const Style& style, const Axes& axes,
                                                 const std::vector<Place>& places,
                                                 std::vector<Name>& names) {
  std::set<std::size_t> in_the_way;
  std::set<std::string> named;
  for (const Name& one : names) named.insert(one.text);
  const std::size_t lower = names.size();
  double free_from = axes.plot.x;
  const auto add = [&](const std::string& text, std::vector<double> lines) {
    const double width = width_of(style, text);
    const double middle = (lines.front() + lines.back()) / 2;
    const double x = std::max(std::min(middle - width / 2, axes.plot.right() - width), free_from);
    const bool fits =
        x + width <= axes.plot.right() + 0.01 && x <= lines.front() && lines.back() <= x + width;
    bool crosses = false;
    for (std::size_t i = 0; i < lower; ++i) {
      for (const double line : lines) {
        if (line <= names[i].x - 1.0 || names[i].x + names[i].width + 1.0 <= line) continue;
        crosses = true;
        in_the_way.insert(names[i].place);
      }
    }
    if (!fits || crosses) return false;
    free_from = x + width + gap;
    names.push_back({text, x, width, std::move(lines), 0});
    return true;
  };
  const auto is_new = [&](const Place& one) {
    return !named.contains(one.name) &&
           one.name != "special";  // a token or two, which name themselves
  };
  for (std::size_t i = 0; i < places.size(); ++i) {
    const Place& one = places[i];
    if (!is_new(one)) continue;
    auto next = std::find_if(places.begin() + static_cast<std::ptrdiff_t>(i), places.end(),
                             [&](const Place& other) { return other.name != one.name; });
    if (next != places.end() && is_new(*next) &&
        add(one.name + " · " + next->name, {one.middle(), next->middle()})) {
      named.insert({one.name, next->name});
    } else if (add(one.name, {one.middle()})) {
      named.insert(one.name);
    }
  }
  return in_the_way;
}

std::string given_sentence(const GivenTokens& given, const std::string& marks) {
  if (given.range.empty()) return "";
  std::string text = fmt::format(" The answer ({}) was given to the model",
                                 format_tokens(given.range.first, given.range.end - 1));
  if (given.compared && given.others.empty()) text += ", which would have chosen the same";
  if (!given.others.empty())
    text += fmt::format("; {}: tokens in whose place it would have chosen another ({})", marks,
                        given.others.size());
  return text + ".";
}

}  // namespace kvloupe::figure
