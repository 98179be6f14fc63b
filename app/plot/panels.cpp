#include "app/plot/panels.h"

#include <algorithm>

namespace kvloupe::figure {

namespace {

constexpr double outer = 2.0;  // margin of the page
constexpr double between_rows = 5.0;
constexpr double title_overhang = 8.0;  // of the names of y axes, beside titles
constexpr double between_columns = 7.0;
// Least height of a plot, if another number of columns can give it. A figure may ask for a number
// of columns, to have plots above each other. It gets another number only if a row would be all
// labels.
constexpr double least_height = 48.0, least_asked_height = 14.0;
constexpr int most_title_lines = 3;
constexpr double least_plot = 30.0;  // the side of a plot with axes' names of two lines

bool same_axis(const Axis& a, const Axis& b) {
  return a.meaning == b.meaning && a.scale == b.scale && a.first == b.first && a.last == b.last &&
         a.label == b.label && a.names == b.names;
}

/// The place of every part, in points.
struct Layout {
  int columns = 1;
  int rows = 1;
  std::vector<double> title;     // [rows] room above each
  std::vector<int> title_lines;  // [rows] at most so many of a title
  std::vector<double> left;      // [columns] room for y labels
  std::vector<double> bottom;    // [rows] room for x labels
  double plot_width = 10.0;
  double plot_height = 10.0;
  std::vector<AxisLook> x;  // [panels]
  std::vector<AxisLook> y;
};

bool shows_y(const PanelGrid& grid, const Layout& layout, int p) {
  const auto at = static_cast<std::size_t>(p);
  return p % layout.columns == 0 || !same_axis(grid.panels[at].y, grid.panels[at - 1].y);
}

bool shows_x(const PanelGrid& grid, const Layout& layout, int p) {
  const std::size_t below = static_cast<std::size_t>(p + layout.columns);
  return below >= grid.panels.size() ||
         !same_axis(grid.panels[static_cast<std::size_t>(p)].x, grid.panels[below].x);
}

int columns_of(const PanelGrid& grid, double width) {
  const int count = static_cast<int>(grid.panels.size());
  if (grid.columns > 0) return std::min(grid.columns, count);
  const double each = grid.least_width + grid.beside + between_columns;
  const int most = std::max(1, static_cast<int>((width - 30.0 - grid.right) / each));
  const int rows = (count + most - 1) / most;
  return (count + rows - 1) / rows;  // rows as even as can be
}

/// The distance of a panel's title from its plot's left side.
double title_indent(const Style& style, const PanelGrid& grid) {
  return grid.panels.size() > 1 && grid.letters ? style.text * 1.4 : 0.0;
}

std::vector<std::string> title_lines(const Style& style, const PanelGrid& grid,
                                     const std::string& title, double plot_width, int most) {
  return break_lines(style, title, style.small,
                     plot_width + grid.beside - title_indent(style, grid), most);
}

/// The first byte of the word in which two texts differ first.
std::size_t different_word(const std::string& a, const std::string& b) {
  const auto at = static_cast<std::size_t>(
      std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first - a.begin());
  const std::size_t before = at == 0 ? std::string::npos : a.find_last_of(" ,(+", at - 1);
  return before == std::string::npos ? 0 : before + 1;
}

/// The titles of all panels as they are shown: titles that would be cut to the same text begin with
/// what tells them apart.
std::vector<std::vector<std::string>> shown_titles(const Style& style, const PanelGrid& grid,
                                                   const std::vector<double>& widths,
                                                   const std::vector<int>& most) {
  std::vector<std::vector<std::string>> cut, shown;
  for (std::size_t p = 0; p < grid.panels.size(); ++p)
    cut.push_back(title_lines(style, grid, grid.panels[p].title, widths[p], most[p]));
  for (std::size_t p = 0; p < cut.size(); ++p) {
    const std::string& title = grid.panels[p].title;
    std::size_t from = title.size();
    for (std::size_t other = 0; other < cut.size(); ++other) {
      if (cut[other] == cut[p] && grid.panels[other].title != title)
        from = std::min(from, different_word(title, grid.panels[other].title));
    }
    shown.push_back(from == 0 || from == title.size()
                        ? cut[p]
                        : title_lines(style, grid, "…" + title.substr(from), widths[p], most[p]));
  }
  return shown;
}

double title_line_height(const Style& style) { return style.small * 1.2; }

/// The room for the name of a panel's x axis: below its plot, or below all plots of its row where
/// the name is theirs, too (share_names).
double x_name_room(const PanelGrid& grid, const Layout& layout, int p) {
  const std::string& name = grid.panels[static_cast<std::size_t>(p)].x.label;
  const int first = p - p % layout.columns;
  const int end = std::min(first + layout.columns, static_cast<int>(grid.panels.size()));
  bool same = true;
  for (int other = first; other < end; ++other) {
    same = same && shows_x(grid, layout, other) &&
           grid.panels[static_cast<std::size_t>(other)].x.label == name;
  }
  const double beyond = p + 1 == end ? outer + grid.beside + grid.right - 1.0 : x_overhang;
  const double own = layout.plot_width + 2 * std::min(x_overhang, beyond);
  if (!same) return own;
  return own + (end - first - 1) * (layout.plot_width + grid.beside + between_columns);
}

/// Ticks depend on the plots' size, which depends on the ticks: three rounds settle it.
Layout lay_out(const Style& style, const PanelGrid& grid, double width, double height,
               int columns) {
  Layout layout;
  const int count = static_cast<int>(grid.panels.size());
  layout.columns = columns;
  layout.rows = (count + columns - 1) / columns;
  const bool titled = (count > 1 && grid.letters) ||
                      std::any_of(grid.panels.begin(), grid.panels.end(),
                                  [](const Panel& panel) { return !panel.title.empty(); });
  // Without a title half a tick label may still stand above the plot.
  const double first_line = titled ? style.text * 1.7 : style.small * 0.5;
  layout.title.assign(static_cast<std::size_t>(layout.rows), first_line);
  layout.plot_width = width / layout.columns;
  layout.plot_height = height > 0.0 ? height / layout.rows : layout.plot_width / grid.aspect;
  for (int round = 0; round < 3; ++round) {
    layout.left.assign(static_cast<std::size_t>(layout.columns), 0.0);
    layout.bottom.assign(static_cast<std::size_t>(layout.rows), 0.0);
    layout.x.clear();
    layout.y.clear();
    // On a small page plots have the room of second lines.
    const bool small = height > 0.0 && std::min(layout.plot_width, layout.plot_height) < least_plot;
    for (int p = 0; p < count; ++p) {
      const Panel& panel = grid.panels[static_cast<std::size_t>(p)];
      AxisLook x = axis_look(style, panel.x, layout.plot_width, true);
      AxisLook y = axis_look(style, panel.y, layout.plot_height, false);
      x.labels = shows_x(grid, layout, p);
      y.labels = shows_y(grid, layout, p);
      x.grid = panel.x_grid;
      y.grid = panel.y_grid;
      x.line = y.line = !panel.is_map;
      if (titled) y.overhang = title_overhang;
      if (!small) {
        y.name_lines = name_lines(style, panel.y.label, layout.plot_height + 2 * y.overhang);
        x.name_lines = name_lines(style, panel.x.label, x_name_room(grid, layout, p));
      }
      double& left = layout.left[static_cast<std::size_t>(p % layout.columns)];
      double& bottom = layout.bottom[static_cast<std::size_t>(p / layout.columns)];
      left = std::max(left, left_margin(style, panel.y, y));
      bottom = std::max(bottom, bottom_margin(style, panel.x, x));
      layout.x.push_back(std::move(x));
      layout.y.push_back(std::move(y));
    }
    double wide = width - 2 * outer - grid.right - layout.columns * grid.beside -
                  (layout.columns - 1) * between_columns;
    for (const double left : layout.left) wide -= left;
    layout.plot_width = std::max(10.0, wide / layout.columns);
    layout.title_lines.assign(static_cast<std::size_t>(layout.rows), 1);
    // On a low page plots have the room that titles would take.
    const bool low = height > 0.0 && layout.plot_height < least_height;
    for (int p = 0; p < count && !low; ++p) {
      const Panel& panel = grid.panels[static_cast<std::size_t>(p)];
      int& most = layout.title_lines[static_cast<std::size_t>(p / layout.columns)];
      const auto lines = title_lines(style, grid, panel.title, layout.plot_width, most_title_lines);
      most = std::max(most, static_cast<int>(lines.size()));
    }
    double titles = 0.0;
    for (std::size_t row = 0; row < layout.title.size(); ++row) {
      layout.title[row] = first_line + (layout.title_lines[row] - 1) * title_line_height(style);
      titles += layout.title[row];
    }
    if (height > 0.0) {
      double high =
          height - grid.top - grid.below - outer - titles - (layout.rows - 1) * between_rows;
      for (const double bottom : layout.bottom) high -= bottom;
      layout.plot_height = std::max(8.0, high / layout.rows);
    } else {
      layout.plot_height = layout.plot_width / grid.aspect;
    }
  }
  return layout;
}

/// The plots' size relative to the least size, in the direction with the largest shortage.
double size_share(const PanelGrid& grid, const Layout& layout) {
  return std::min(layout.plot_width / grid.least_width, layout.plot_height / least_height);
}

Layout lay_out(const Style& style, const PanelGrid& grid, double width, double height) {
  const int count = static_cast<int>(grid.panels.size());
  Layout best = lay_out(style, grid, width, height, std::max(1, columns_of(grid, width)));
  if (height <= 0.0) return best;
  // A low figure: narrower plots in fewer rows may be easier to read.
  const double least = grid.columns > 0 ? least_asked_height : least_height;
  for (int columns = best.columns + 1; columns <= count && best.plot_height < least; ++columns) {
    if ((count + columns - 1) / columns == best.rows) continue;
    Layout other = lay_out(style, grid, width, height, columns);
    if (size_share(grid, other) > size_share(grid, best)) best = std::move(other);
  }
  return best;
}

}  // namespace

double panels_natural_height(const Style& style, const PanelGrid& grid, double width) {
  if (grid.panels.empty()) return 0.0;
  const Layout layout = lay_out(style, grid, width, 0.0);
  double height = grid.top + grid.below + outer + layout.rows * layout.plot_height +
                  (layout.rows - 1) * between_rows;
  for (const double title : layout.title) height += title;
  for (const double bottom : layout.bottom) height += bottom;
  return height;
}

namespace {
/// The places of all panels.
std::vector<Axes> place(const PanelGrid& grid, const Layout& layout) {
  std::vector<Axes> axes;
  double y = grid.top;
  for (int row = 0; row < layout.rows; ++row) {
    const double title = layout.title[static_cast<std::size_t>(row)];
    double x = outer;
    for (int column = 0; column < layout.columns; ++column) {
      x += layout.left[static_cast<std::size_t>(column)];
      const std::size_t at = axes.size();
      if (at >= grid.panels.size()) break;
      const Rect plot{x, y + title, layout.plot_width, layout.plot_height};
      axes.push_back({plot, grid.panels[at].x, grid.panels[at].y});
      x += layout.plot_width + grid.beside + between_columns;
    }
    y += title + layout.plot_height + layout.bottom[static_cast<std::size_t>(row)] + between_rows;
  }
  return axes;
}

/// If neighbours in a row have the same name under them and it would be cut, it is written once,
/// under the middle of all.
void share_names(const Style& style, const std::vector<Axes>& axes, double page, Layout& layout) {
  const std::size_t columns = static_cast<std::size_t>(layout.columns);
  for (std::size_t first = 0; first < axes.size(); first += columns) {
    const std::size_t last = std::min(first + columns, axes.size()) - 1;
    bool same = last > first, fit = true;
    for (std::size_t at = first; at <= last; ++at) {
      same = same && layout.x[at].labels && axes[at].x.label == axes[first].x.label;
      fit = fit && x_name_fits(style, axes[at], page);
    }
    if (!same || fit) continue;
    for (std::size_t at = first + 1; at <= last; ++at) layout.x[at].named = false;
    layout.x[first].name_from = axes[first].plot.x;
    layout.x[first].name_to = axes[last].plot.right();
  }
}
}  // namespace

std::vector<Axes> add_panels(Scene& scene, const Style& style, const PanelGrid& grid) {
  if (grid.panels.empty()) return {};
  Layout layout = lay_out(style, grid, scene.width, scene.height);
  const std::vector<Axes> axes = place(grid, layout);
  share_names(style, axes, scene.width, layout);
  std::vector<double> widths;
  std::vector<int> lines;
  for (std::size_t at = 0; at < axes.size(); ++at) {
    widths.push_back(axes[at].plot.width);
    lines.push_back(layout.title_lines[at / static_cast<std::size_t>(layout.columns)]);
  }
  const auto titles = shown_titles(style, grid, widths, lines);
  for (std::size_t at = 0; at < axes.size(); ++at) {
    const Rect& plot = axes[at].plot;
    const std::size_t row = at / static_cast<std::size_t>(layout.columns);
    const double top = plot.y - layout.title[row];
    add_axes(scene, style, axes[at], layout.x[at], layout.y[at]);
    if (axes.size() > 1 && grid.letters)
      add_panel_letter(scene, style, static_cast<int>(at), {plot.x, top + 1.0});
    if (grid.panels[at].title.empty()) continue;
    double y = top + 1.0 + style.fonts->cap_height() * style.text;
    for (const std::string& line : titles[at]) {
      scene.add(make_text(style, line, {plot.x + title_indent(style, grid), y}, style.small));
      y += title_line_height(style);
    }
  }
  return axes;
}

Rect around(const std::vector<Axes>& axes) {
  Rect all = axes.front().plot;
  for (const Axes& one : axes) {
    all.width = std::max(all.width, one.plot.right() - all.x);
    all.height = std::max(all.height, one.plot.bottom() - all.y);
  }
  return all;
}

}  // namespace kvloupe::figure
