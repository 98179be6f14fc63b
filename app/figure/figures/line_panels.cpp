#include "app/figure/figures/line_panels.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "app/figure/comparison.h"
#include "app/figure/panel_figure.h"
#include "app/plot/marks.h"
#include "app/plot/panels.h"
#include "app/scene/scene.h"

namespace kvloupe::figure {

namespace {
constexpr double kMark = 2.6;      // points: of marks without a line
constexpr double kLineMark = 3.4;  // points: of marks on a line

SeriesLook look_of(const Style& style, const LinePanels::Line& line) {
  if (line.chance) return chance_look(style);
  SeriesLook look;
  if (line.look >= 0) {
    look = series_look(style, line.look);
  } else {
    look.colour = style.colours.ink;
  }
  if (line.thin) {
    look.width = 0.5;
    look.dash.clear();
    look.colour = look.colour.with_alpha(0.55);
  }
  if (line.dashed) look.dash = {3.0, 2.0};
  if (line.marks_only) look.filled = false;
  return look;
}

SeriesLook look_of(const Style& style, const LinePanels::Dots& dots) {
  const Colour series = series_look(style, std::max(0, dots.look)).colour;
  return {.colour = dots.look < 0 ? style.colours.*dots.colour : series,
          .shape = dots.shape,
          .filled = dots.filled};
}

/// Each name once, in the order of its first line.
std::vector<SeriesLabel> names_in_legend(const Style& style,
                                         const std::vector<LinePanels::Panel>& panels) {
  // If some lines have marks, the samples of the others have none; else a mark tells lines apart.
  const bool some = std::any_of(panels.begin(), panels.end(), [](const auto& panel) {
    return std::any_of(panel.lines.begin(), panel.lines.end(),
                       [](const auto& line) { return line.marked; });
  });
  std::vector<SeriesLabel> labels;
  for (const LinePanels::Panel& panel : panels) {
    for (const LinePanels::Line& line : panel.lines) {
      const bool known = line.name.empty() ||
                         std::any_of(labels.begin(), labels.end(),
                                     [&](const auto& label) { return label.text == line.name; });
      if (known) continue;
      labels.push_back({line.name, 0.0, look_of(style, line)});
      labels.back().look.marked = !line.chance && (!some || line.marked || line.marks_only);
    }
    for (const LinePanels::Dots& dots : panel.dots) {
      if (!dots.name.empty() && std::none_of(labels.begin(), labels.end(), [&](const auto& label) {
            return label.text == dots.name;
          }))
        labels.push_back({dots.name, 0.0, look_of(style, dots)});
    }
  }
  return labels;
}

std::vector<std::string> names_of(const LinePanels::Panel& panel) {
  std::vector<std::string> names;
  for (const LinePanels::Line& line : panel.lines) {
    if (!line.name.empty()) names.push_back(line.name);
  }
  return names;
}

/// The place on the page at which a line leaves the picture.
double end_of(const Axes& axes, const LinePanels::Line& line) {
  for (auto point = line.points.rbegin(); point != line.points.rend(); ++point) {
    const bool shown =
        std::isfinite(point->y) && (axes.y.scale == AxisScale::linear || point->y > 0);
    if (shown) return axes.to_page(point->x, point->y).y;
  }
  return axes.plot.bottom();
}

PanelGrid grid_of(const LinePanels& figure, const DrawRequest& request) {
  PanelGrid grid{.columns = figure.columns,
                 .least_width = figure.least_width,
                 .aspect = figure.aspect,
                 .beside = figure.beside};
  for (const LinePanels::Panel& one : figure.panels) {
    figure::Panel panel;
    panel.title = one.title;
    panel.x = one.x;
    panel.y = one.y;
    panel.y_grid = one.y_grid;
    if (!request.legend && !one.names_without_legend.empty())
      panel.x.names = one.names_without_legend;
    if (request.x_range) panel.x.show(*request.x_range);
    if (request.y_range) panel.y.show(*request.y_range);
    if (!figure.legend && request.legend) {
      const double most = std::min(92.0, 0.35 * request.width);
      grid.beside = std::max(grid.beside, series_label_room(request.style, names_of(one), most));
    }
    grid.panels.push_back(std::move(panel));
  }
  show_limits(request, grid);
  return grid;
}

void add_ground(Scene& scene, const Style& style, const Axes& axes,
                const LinePanels::Ground& ground) {
  const double step = (ground.high - ground.low) / static_cast<double>(ground.heights.size());
  Path path{.fill = style.colours.neither};
  const auto x_of = [&](double value) { return axes.to_page(value, axes.y.last).x; };
  path.move({x_of(ground.low), axes.plot.bottom()});
  for (std::size_t i = 0; i < ground.heights.size(); ++i) {
    const double y = axes.plot.bottom() - axes.plot.height * ground.heights[i];
    path.line({x_of(ground.low + step * static_cast<double>(i)), y});
    path.line({x_of(ground.low + step * static_cast<double>(i + 1)), y});
  }
  path.line({x_of(ground.high), axes.plot.bottom()}).close();
  scene.add(PushClip{axes.plot});
  scene.add(std::move(path));
  scene.add(PopClip{});
}

void add_mean(Scene& scene, const Style& style, const Axes& axes, const LinePanels::Strip& one) {
  const double middle = one.cell + 0.5;
  // On a logarithmic axis an interval from 0 begins at the foot.
  const double foot = std::min(axes.y.first, axes.y.last);
  if (one.mean < foot) return;
  if (one.low != one.high) {
    scene.add(make_line(axes.to_page(middle, std::max(one.low, foot)),
                        axes.to_page(middle, one.high), style.colours.ink, 1.4));
  }
  scene.add(make_line(axes.to_page(middle - 0.3, one.mean), axes.to_page(middle + 0.3, one.mean),
                      style.colours.ink, 1.0));
}

void add_panel(Scene& scene, const Style& style, const Axes& axes, const LinePanels::Panel& panel) {
  for (const LinePanels::Ground& ground : panel.grounds) add_ground(scene, style, axes, ground);
  for (const LinePanels::Band& band : panel.bands) {
    const Colour colour =
        band.look >= 0 ? series_look(style, band.look).colour : style.colours.faint;
    add_band(scene, axes, band.x, band.low, band.high, colour.with_alpha(0.18));
  }
  for (const LinePanels::Strip& strip : panel.strips) {
    SeriesLook look = strip.chance ? chance_look(style) : series_look(style, strip.look);
    if (strip.faint) look.colour = look.colour.with_alpha(0.55);
    if (strip.faint) look.filled = false;
    add_strip(scene, style, axes, strip.cell, strip.values, look, true, strip.faint ? 2.0 : 2.4);
    if (strip.with_mean) add_mean(scene, style, axes, strip);
  }
  for (const LinePanels::Level& level : panel.levels) {
    add_level(scene, style, axes, level.value, level.name, level.along_x);
  }
  for (const bool thin : {true, false}) {  // the many first, so that they hide nothing
    for (const LinePanels::Line& line : panel.lines) {
      if (line.thin != thin) continue;
      if (line.marks_only) {
        add_dots(scene, style, axes, line.points, look_of(style, line), kMark);
      } else if (line.marked && (!line.chance || line.points.size() == 1)) {
        add_marked_line(scene, style, axes, line.points, look_of(style, line), kLineMark,
                        line.target);
      } else {
        add_line(scene, axes, line.points, look_of(style, line), line.target);
      }
    }
  }
  std::vector<const LinePanels::Dots*> order;
  for (const LinePanels::Dots& dots : panel.dots) order.push_back(&dots);
  std::stable_sort(order.begin(), order.end(),
                   [](const auto* a, const auto* b) { return a->over < b->over; });
  for (const LinePanels::Dots* dots : order) {
    if (dots->points.empty()) continue;
    add_dots(scene, style, axes, dots->points, look_of(style, *dots), dots->size, dots->tokens);
    const Point at = axes.to_page(dots->points.front().x, dots->points.front().y);
    if (dots->beside.empty() || !axes.plot.contains(at)) continue;
    add_note(scene, style, dots->beside,
             {at.x + 5.0, at.y + style.fonts->cap_height() * style.small / 2});
  }
  if (!panel.note.empty()) add_note(scene, style, panel.note, axes.plot.centre(), Align::centre);
}

}  // namespace

double LinePanels::natural_height(const DrawRequest& request) const {
  PanelGrid grid = grid_of(*this, request);
  Scene scratch = make_scene(request.style, request.width, 100.0);
  if (legend) add_top_legend(scratch, request, grid, names_in_legend(request.style, panels));
  return panels_natural_height(request.style, grid, request.width);
}

Scene LinePanels::draw(const DrawRequest& request) const {
  const Style& style = request.style;
  Scene scene = make_scene(style, request.width, request.height);
  PanelGrid grid = grid_of(*this, request);
  if (legend) add_top_legend(scene, request, grid, names_in_legend(style, panels));
  const std::vector<Axes> axes = add_panels(scene, style, grid);
  for (std::size_t p = 0; p < panels.size(); ++p) {
    add_panel(scene, style, axes[p], panels[p]);
    if (legend || !request.legend) continue;
    std::vector<SeriesLabel> labels;
    for (const Line& line : panels[p].lines) {
      if (!line.name.empty()) {
        labels.push_back({line.name, end_of(axes[p], line), look_of(style, line)});
      }
    }
    const Rect& plot = axes[p].plot;
    add_series_labels(scene, style, plot.right(), grid.beside, plot.y + 3.0, plot.bottom() - 3.0,
                      std::move(labels));
  }
  keep_fitting_texts(scene);
  return scene;
}

void LinePanels::write_csv(CsvWriter& csv) const {
  if (has_rows()) return Figure::write_csv(csv);
  csv.row({"panel", "line", x_measure, y_measure});
  for (const Panel& panel : panels) {
    const std::string_view title = panel.title.empty() ? panel.id : panel.title;
    for (const Band& band : panel.bands) {
      for (std::size_t i = 0; !band.low_id.empty() && i < band.x.size(); ++i) {
        csv.row({title, band.low_id, band.x[i], band.low[i]});
      }
      for (std::size_t i = 0; !band.high_id.empty() && i < band.x.size(); ++i) {
        csv.row({title, band.high_id, band.x[i], band.high[i]});
      }
    }
    for (const Line& line : panel.lines) {
      if (line.thin && line.marks_only)
        continue;  // dots of prompts, which stand beside their place
      const std::string_view id = line.name.empty() || line.chance ? line.id : line.name;
      for (const Point& point : line.points) {
        if (std::isnan(point.x)) continue;  // a gap in the line
        if (panel.x.names.empty()) {
          csv.row({title, id, point.x, point.y});
        } else {
          const auto cell = static_cast<std::size_t>(point.x);
          csv.row({title, id, panel.x.names.at(cell), point.y});
        }
      }
    }
  }
}

std::unique_ptr<LinePanels> line_panels(std::string x_measure, std::string y_measure,
                                        std::vector<LinePanels::Panel> panels) {
  auto figure = std::make_unique<LinePanels>();
  figure->x_measure = std::move(x_measure);
  figure->y_measure = std::move(y_measure);
  figure->panels = std::move(panels);
  if (figure->panels.size() > 1) figure->columns = 2;
  return figure;
}

Axis layer_names_axis(int layers, std::string label, std::vector<std::string> more) {
  std::vector<std::string> names;
  for (int layer = 0; layer < layers; ++layer) names.push_back(std::to_string(layer));
  names.insert(names.end(), more.begin(), more.end());
  return name_axis(std::move(names), std::move(label));
}

void mark_chance(LinePanels::Panel& panel, const std::vector<std::string>& policies) {
  const std::vector<std::string> names = chance_names(policies);
  for (LinePanels::Line& line : panel.lines) {
    const auto at =
        std::find(policies.begin(), policies.end(), line.name.empty() ? line.id : line.name);
    if (at == policies.end()) continue;
    const std::string& name = names[static_cast<std::size_t>(at - policies.begin())];
    if (name.empty()) continue;
    line.chance = true;
    if (!line.name.empty()) line.id = std::exchange(line.name, name);
    for (LinePanels::Band& band : panel.bands) {
      if (band.look == line.look) band.look = -1;
    }
  }
}

ChoiceInfo curve_scale_choice() {
  return word_choice(
      "scale", "Scale",
      "Scale of the values: logarithmic, linear from 0, or (auto) logarithmic where all are above "
      "0 and the largest is at least 30 times the smallest",
      {"auto", "linear", "log"});
}

Axis curve_axis(std::string label, const LinePanels::Panel& panel, const std::string& scale) {
  constexpr double kSpan = 30.0;  // a decade and a half
  ValueRange all, positive;
  for (const LinePanels::Line& line : panel.lines) {
    for (const Point& point : line.points) {
      all.add(point.y);
      if (point.y > 0.0) positive.add(point.y);
    }
  }
  const bool spans = all.low > 0.0 && all.high >= kSpan * all.low && !all.empty();
  const bool log = scale == "log" ? !positive.empty() : scale == "auto" && spans;
  return log ? y_axis(std::move(label), positive.padded_log(), AxisScale::log)
             : y_axis(std::move(label), all.from_zero());
}

std::string curve_scale_words(const LinePanels::Panel& panel) {
  if (panel.y.scale != AxisScale::log) return {};
  const bool gaps = std::any_of(panel.lines.begin(), panel.lines.end(), [](const auto& line) {
    return std::any_of(line.points.begin(), line.points.end(),
                       [](const Point& point) { return point.y <= 0.0; });
  });
  return gaps ? " Logarithmic axis; zeros are left out." : " Logarithmic axis.";
}

}  // namespace kvloupe::figure
