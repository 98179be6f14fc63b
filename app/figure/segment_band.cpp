#include "app/figure/segment_band.h"

#include <algorithm>

namespace kvloupe::figure {

namespace {
// Too narrow to be seen as a band (often the one token that starts the text): no name either.
constexpr double narrowest_named = 1.5;
constexpr double gap = 4.0;          // points; between two names
constexpr double band_top = 4.0;     // above the plot
constexpr double band_height = 2.5;  // and a name stands as far above the band

double row_height(const Style& style) { return style.small * 1.35; }

double width_of(const Style& style, const std::string& text) {
  return style.fonts->width(text, Font::regular, style.small);
}
}  // namespace

SegmentBand::SegmentBand(const TokenTable& tokens) {
  for (std::size_t t = 0; t < tokens.segment.size(); ++t) {
    const std::uint8_t id = tokens.segment[t];
    const std::string name =
        id < tokens.segment_names.size() ? tokens.segment_names[id] : std::string();
    if (segments_.empty() || segments_.back().name != name) {
      segments_.push_back({name, static_cast<int>(t), static_cast<int>(t) + 1});
    } else {
      segments_.back().end = static_cast<int>(t) + 1;
    }
  }
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
  if (!two_rows) return lower_row(style, axes, {});
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
  while (true) {
    std::vector<Name> all = lower_row(style, axes, in_the_way);
    const std::size_t before = in_the_way.size();
    in_the_way.merge(add_upper_row(style, axes, all));
    if (best.empty() || named(all) > named(best)) best = std::move(all);
    // Names in the way go up, too, if then more kinds of segments have one.
    if (in_the_way.size() == before) return best;
  }
}

/// The lower row, without the names of the segments in `left_out`.
std::vector<SegmentBand::Name> SegmentBand::lower_row(const Style& style, const Axes& axes,
                                                      const std::set<std::size_t>& left_out) const {
  std::vector<Name> row;
  double free_from = axes.plot.x;
  for (std::size_t i = 0; i < segments_.size(); ++i) {
    const Segment& segment = segments_[i];
    const auto [a, b] = span_of(segment, axes);
    if (b - a < narrowest_named || left_out.contains(i)) continue;
    // A short segment's name may be wider than the segment and stand beside its middle, but not on
    // another name, and not where it could as well be the name of another segment.
    const double width = width_of(style, segment.name);
    const double last = axes.plot.right() - width;
    const double x = std::max(std::min((a + b) / 2 - width / 2, last), free_from);
    if (x > last) continue;
    const double middle = x + width / 2;
    const auto under = std::count_if(segments_.begin(), segments_.end(), [&](const Segment& one) {
      const auto [begin, end] = span_of(one, axes);
      return x <= begin && end <= x + width && end - begin >= narrowest_named;
    });
    const bool covers = x <= a && b <= x + width;
    if (!(a <= middle && middle <= b) && !(covers && under == 1)) continue;
    free_from = x + width + gap;
    row.push_back({segment.name, x, width, {}, i});
  }
  return row;
}

/// Adds the names that no segment has in the lower row: each once, those of neighbours together
/// ("question · answer"). Returns the segments in the lower row whose names are in the way.
std::set<std::size_t> SegmentBand::add_upper_row(const Style& style, const Axes& axes,
                                                 std::vector<Name>& names) const {
  std::set<std::size_t> in_the_way;
  std::set<std::string> named;
  for (const Name& one : names) named.insert(one.text);
  const std::size_t lower = names.size();
  double free_from = axes.plot.x;
  const auto place = [&](const std::string& text, std::vector<double> lines) {
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
        in_the_way.insert(names[i].segment);
      }
    }
    if (!fits || crosses) return false;
    free_from = x + width + gap;
    names.push_back({text, x, width, std::move(lines), 0});
    return true;
  };
  const auto middle_of = [&](const Segment& segment) {
    const auto [a, b] = span_of(segment, axes);
    return (a + b) / 2;
  };
  const auto is_new = [&](std::size_t at) {
    const auto [a, b] = span_of(segments_[at], axes);
    return b - a >= narrowest_named && !named.contains(segments_[at].name) &&
           segments_[at].name != "special";  // a token or two, which names itself
  };
  for (std::size_t i = 0; i < segments_.size(); ++i) {
    if (!is_new(i)) continue;
    const bool pair = i + 1 < segments_.size() && is_new(i + 1);
    if (pair && place(segments_[i].name + " · " + segments_[i + 1].name,
                      {middle_of(segments_[i]), middle_of(segments_[i + 1])})) {
      named.insert({segments_[i].name, segments_[i + 1].name});
    } else if (place(segments_[i].name, {middle_of(segments_[i])})) {
      named.insert(segments_[i].name);
    }
  }
  return in_the_way;
}

}  // namespace kvloupe::figure
