#include "app/figure/figures/head_scatter.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "analysis/math/rank_correlation.h"
#include "app/plot/marks.h"

namespace kvloupe::figure {

namespace {

constexpr std::size_t kNamedDots = 5;  // of a panel: the highest
constexpr std::size_t kManyDots = 150;

bool overlap(const Rect& a, const Rect& b) {
  return a.x < b.right() && b.x < a.right() && a.y < b.bottom() && b.y < a.bottom();
}

}  // namespace

std::string correlation_text(double rho) {
  if (!std::isfinite(rho)) return "not known";
  return (rho < 0.0 ? "−" : "") + fmt::format("{:.2f}", std::abs(rho));
}

void add_dot_names(Scene& scene, const Style& style, const Axes& axes,
                   std::vector<std::pair<Point, std::string>> dots, double size, bool diagonal,
                   std::vector<Rect> taken) {
  std::stable_sort(dots.begin(), dots.end(),
                   [](const auto& a, const auto& b) { return a.first.y < b.first.y; });
  const bool has_lines = !taken.empty();
  for (const auto& [at, name] : dots) {
    const double reach = size / 2 + 0.8;
    taken.push_back({at.x - reach, at.y - reach, 2 * reach, 2 * reach});
  }
  const double cap = style.fonts->cap_height() * style.small;
  const double away = size / 2 + 1.6;
  for (std::size_t i = 0; i < std::min(kNamedDots, dots.size()); ++i) {
    const auto& [at, name] = dots[i];
    std::vector<std::pair<Point, Align>> places = {{{at.x + away, at.y + cap / 2}, Align::left},
                                                   {{at.x - away, at.y + cap / 2}, Align::right},
                                                   {{at.x, at.y - away}, Align::centre},
                                                   {{at.x, at.y + away + cap}, Align::centre}};
    // Between the lines of a cross, by the descent and the ascent of Text::bounds().
    for (const double up : {-0.22 * style.small - 0.8, 0.75 * style.small + 0.8}) {
      if (!has_lines) break;
      places.push_back({{at.x + away, at.y + up}, Align::left});
      places.push_back({{at.x - away, at.y + up}, Align::right});
    }
    for (const auto& [anchor, align] : places) {
      Text text = make_text(style, name, anchor, style.small, Font::regular, align);
      const Rect box = text.bounds();
      const bool inside = box.x >= axes.plot.x && box.right() <= axes.plot.right() &&
                          box.y >= axes.plot.y && box.bottom() <= axes.plot.bottom();
      // The diagonal goes from the lower left to the upper right corner of the plot.
      const auto below = [&](double x, double y) {
        return (x - axes.plot.x) / axes.plot.width > (axes.plot.bottom() - y) / axes.plot.height;
      };
      const bool crossed = diagonal && below(box.x - 1.0, box.y - 1.0) !=
                                           below(box.right() + 1.0, box.bottom() + 1.0);
      if (!inside || crossed || std::any_of(taken.begin(), taken.end(), [&](const Rect& other) {
            return overlap(box, other);
          })) {
        continue;
      }
      taken.push_back(box);
      text.colour = style.colours.faint;
      scene.add(std::move(text));
      break;
    }
  }
}

double HeadScatter::correlation(const Panel& panel) {
  std::vector<double> x, y;
  for (const Dot& dot : panel.dots) {
    if (!std::isfinite(dot.x) || !std::isfinite(dot.y)) continue;
    x.push_back(dot.x);
    y.push_back(dot.y);
  }
  return spearman(x, y);
}

HeadScatter::Dot HeadScatter::least() const {
  Dot least;
  least.x = least.y = -std::numeric_limits<double>::infinity();
  double largest_x = 0.0, largest_y = 0.0;
  for (const Panel& panel : panels) {
    for (const Dot& dot : panel.dots) {
      if (std::isfinite(dot.x)) largest_x = std::max(largest_x, dot.x);
      if (std::isfinite(dot.y)) largest_y = std::max(largest_y, dot.y);
    }
  }
  if (x_log) least.x = kLeastDrawn * largest_x;
  if (y_log) least.y = kLeastDrawn * largest_y;
  return least;
}

bool HeadScatter::has_place(const Dot& dot, const Dot& least) const {
  return std::isfinite(dot.x) && std::isfinite(dot.y) && dot.x >= least.x && dot.y >= least.y &&
         (!x_log || dot.x > 0.0) && (!y_log || dot.y > 0.0);
}

long HeadScatter::known(const Panel& panel) const {
  return std::count_if(panel.dots.begin(), panel.dots.end(),
                       [](const Dot& dot) { return std::isfinite(dot.x) && std::isfinite(dot.y); });
}

long HeadScatter::drawn(const Panel& panel) const {
  const Dot smallest = least();
  return std::count_if(panel.dots.begin(), panel.dots.end(),
                       [&](const Dot& dot) { return has_place(dot, smallest); });
}

PanelGrid HeadScatter::grid(const DrawRequest& /*request*/) const {
  ValueRange x, y;
  const Dot smallest = least();
  for (const Panel& panel : panels) {
    for (const Dot& dot : panel.dots) {
      if (!has_place(dot, smallest)) continue;
      x.add(dot.x);
      y.add(dot.y);
    }
  }
  if (diagonal) {
    x.add(y.low);
    x.add(y.high);
    y = x;
  }
  const auto range = [](const ValueRange& one, bool log) {
    return log ? one.padded_log() : one.from_zero();
  };
  PanelGrid plots = shape;
  for (const Panel& one : panels) {
    plots.panels.push_back({.title = one.title, .x = one.x, .y = one.y, .y_grid = true});
    if (!one.title.empty()) continue;
    plots.panels.back() = {
        fmt::format("{}, ρ\u00A0=\u00A0{}", one.policy, correlation_text(correlation(one))),
        x_axis(x_label, range(x, x_log), x_log ? AxisScale::log : AxisScale::linear),
        y_axis(y_label, range(y, y_log), y_log ? AxisScale::log : AxisScale::linear)};
  }
  return plots;
}

void HeadScatter::draw_panels(Scene& scene, const DrawRequest& request,
                              const std::vector<Axes>& all) const {
  const Style& style = request.style;
  const Dot smallest = least();
  for (std::size_t p = 0; p < panels.size(); ++p) {
    const Axes& axes = all[p];
    const double dot = size > 0.0 ? size : panels[p].dots.size() > kManyDots ? 2.2 : 3.2;
    if (diagonal) {
      scene.add(make_line({axes.plot.x, axes.plot.bottom()}, {axes.plot.right(), axes.plot.y},
                          style.colours.faint, 0.6, {2.0, 1.5}));
    }
    std::vector<Point> points;
    std::vector<Target> targets;
    std::vector<std::pair<Point, std::string>> names;
    for (const Dot& dot : panels[p].dots) {
      if (!has_place(dot, smallest)) continue;
      points.push_back({dot.x, dot.y});
      targets.push_back({.layer = dot.layer, .head = dot.head});
      names.emplace_back(axes.to_page(dot.x, dot.y), fmt::format("{}.{}", dot.layer, dot.head));
    }
    const SeriesLook lost{.colour = style.colours.evicted};
    add_dots(scene, style, axes, points,
             of_evicted ? lost : series_look(style, static_cast<int>(p)), dot, targets);
    add_dot_names(scene, style, axes, std::move(names), dot, diagonal);
  }
}

void HeadScatter::write_csv(CsvWriter& csv) const {
  if (has_rows()) return Figure::write_csv(csv);
  csv.row({"policy", "layer", "head", x_measure, y_measure, "spearman"});
  for (const Panel& panel : panels) {
    const double rho = correlation(panel);
    for (const Dot& dot : panel.dots) {
      csv.row({panel.policy, dot.layer, dot.head, dot.x, dot.y, rho});
    }
  }
}

std::string HeadScatter::value_text(const Target& target) const {
  if (target.layer < 0 || target.head < 0) return {};
  std::string text = Figure::value_text(target);
  if (!text.empty()) return text;
  for (const Panel& panel : panels) {
    for (const Dot& dot : panel.dots) {
      if (dot.layer != target.layer || dot.head != target.head) continue;
      if (!text.empty()) text += "; ";
      if (panels.size() > 1) text += panel.policy + ": ";
      text +=
          fmt::format("{} {}, {} {}", x_name, format_number(dot.x), y_name, format_number(dot.y));
    }
  }
  return text;
}

std::string HeadScatter::caption() const {
  if (whole_caption) return caption_text;
  std::string text = caption_text +
                     " ρ: Spearman’s rank correlation over the heads. Named "
                     "(layer.head): the highest dots, where there is room.";
  for (std::size_t p = 0; p < panels.size(); ++p) {
    const long left_out = known(panels[p]) - drawn(panels[p]);
    if (left_out == 0) continue;
    text += fmt::format(
        " {}{} {} nothing, or less than 10⁻⁹ of the most: no place on a logarithmic axis.",
        panels.size() > 1 ? fmt::format("{}, ", static_cast<char>('a' + p)) : "",
        format_counted(left_out, "head"), left_out == 1 ? "loses" : "lose");
  }
  return text;
}

}  // namespace kvloupe::figure
