#include "app/figure/figures/strips.h"

#include <algorithm>
#include <cmath>

#include "app/plot/cell_map.h"
#include "app/plot/marks.h"
#include "app/plot/panels.h"
#include "app/scene/scene.h"

namespace kvloupe::figure {

namespace {

constexpr double row_margin = 0.1;  // of a row, above and below its marks

bool drawable(const Axis& axis, double value) {
  return std::isfinite(value) && (axis.scale == AxisScale::linear || value > 0.0);
}

double at_row(std::size_t row, double place) {
  return static_cast<double>(row) + row_margin + place * (1.0 - 2 * row_margin);
}

SeriesLook look_of(const Style& style, const Strips::Series& series) {
  SeriesLook look{.colour = series.retained ? style.colours.retained : style.colours.faint,
                  .filled = series.retained};
  return look;
}

std::vector<LegendEntry> legend(const Style& style, const std::vector<Strips::Series>& series) {
  std::vector<LegendEntry> entries;
  for (const Strips::Series& one : series) {
    const SeriesLook look = look_of(style, one);
    LegendEntry entry{one.name, look.shape, std::nullopt, std::nullopt};
    if (look.filled) {
      entry.fill = look.colour;
    } else {
      entry.stroke = Stroke{look.colour, 0.8};
    }
    entries.push_back(std::move(entry));
  }
  return entries;
}

/// Adds a text if it lies on the page; the page may be too small for texts beside a plot.
void add_if_on_page(Scene& scene, Text text) {
  const Rect r = text.bounds();
  const bool fits =
      r.x >= 0.0 && r.y >= 0.0 && r.right() <= scene.width && r.bottom() <= scene.height;
  if (fits) scene.add(std::move(text));
}

std::vector<double> values_of(const std::vector<Strips::Mark>& marks) {
  std::vector<double> values;
  for (const Strips::Mark& mark : marks) values.push_back(mark.value);
  return values;
}

bool is_turned(const Strips& figure) {
  return figure.y.meaning == AxisMeaning::layer && figure.row_names.size() > Strips::kMostRows;
}

/// The place of a row's value on the page, and the axis of the values.
struct Places {
  const Axes& axes;
  bool turned = false;
  const Axis& values() const { return turned ? axes.y : axes.x; }
  Point of(double value, double row) const {
    return turned ? axes.to_page(row, value) : axes.to_page(value, row);
  }
};

void add_joints(Scene& scene, const Style& style, const Places& places,
                const Strips::Column& column) {
  Path joints;
  for (std::size_t r = 0; r < column.series[0].rows.size(); ++r) {
    const auto& first = column.series[0].rows[r];
    const auto& second = column.series[1].rows[r];
    for (std::size_t i = 0; i < std::min(first.size(), second.size()); ++i) {
      if (!drawable(places.values(), first[i].value) ||
          !drawable(places.values(), second[i].value)) {
        continue;
      }
      joints.move(places.of(first[i].value, at_row(r, first[i].place)))
          .line(places.of(second[i].value, at_row(r, second[i].place)));
    }
  }
  add_stroked(scene, std::move(joints), {style.colours.grid, 0.7});
}

void add_marks(Scene& scene, const Style& style, const Places& places, const Strips::Series& series,
               double size) {
  const Axes& axes = places.axes;
  std::vector<Point> points;
  for (std::size_t r = 0; r < series.rows.size(); ++r) {
    for (const Strips::Mark& mark : series.rows[r]) {
      if (!drawable(places.values(), mark.value)) continue;
      const Point at = places.of(mark.value, at_row(r, mark.place));
      if (!axes.plot.contains(at)) continue;
      points.push_back(at);
      scene.regions.push_back({{at.x - 2.5, at.y - 2.5, 5.0, 5.0}, mark.target});
      const double row =
          places.turned ? 0.0 : axes.plot.height / static_cast<double>(series.rows.size());
      if (mark.text.empty() || row < style.small) continue;
      add_if_on_page(
          scene,
          make_text(style, mark.text,
                    {at.x + 4.0, at.y + style.fonts->cap_height() * style.small / 2}, style.small));
    }
  }
  if (!points.empty()) {
    Markers marks = series_marks(style, look_of(style, series), size, std::move(points));
    if (places.turned && marks.stroke) {  // small and close: nothing may hide what is below
      marks.stroke->width = 0.5;
      marks.fill.reset();
    }
    scene.add(std::move(marks));
  }
}

void add_medians(Scene& scene, const Style& style, const Axes& axes, const Strips::Column& column) {
  const double cap = style.fonts->cap_height() * style.small;
  for (std::size_t r = 0; r < column.series[0].rows.size(); ++r) {
    const double median = quantile(values_of(column.series[0].rows[r]), 0.5);
    if (!drawable(axes.x, median)) continue;
    const Point top = axes.to_page(median, at_row(r, 0.0));
    const Point bottom = axes.to_page(median, at_row(r, 1.0));
    if (!axes.plot.contains(top) || !axes.plot.contains(bottom)) continue;
    scene.add(make_line(top, bottom, style.colours.ink, 1.3));
    if (bottom.y - top.y < 0.8 * style.small) continue;
    add_if_on_page(scene,
                   make_text(style, format_number(median),
                             {axes.plot.right() + 3.0, (top.y + bottom.y + cap) / 2}, style.small));
  }
}

double room_of(const Style& style, const Strips& figure, const Strips::Column& column) {
  double room = column.room;
  if (!figure.medians) return room;
  for (const auto& row : column.series[0].rows) {
    const std::string text = format_number(quantile(values_of(row), 0.5));
    room = std::max(room, 5.0 + style.fonts->width(text, Font::regular, style.small));
  }
  return room;
}

PanelGrid grid_of(const Strips& figure, const DrawRequest& request) {
  PanelGrid grid{.columns = static_cast<int>(figure.columns.size())};
  for (const Strips::Column& column : figure.columns) {
    Panel panel{.title = column.title, .x = column.x, .y = figure.y};
    if (request.x_range) std::tie(panel.x.first, panel.x.last) = *request.x_range;
    if (is_turned(figure)) {
      std::swap(panel.x, panel.y);
      std::swap(panel.y.first, panel.y.last);  // values grow upwards
    }
    grid.panels.push_back(std::move(panel));
    grid.beside = std::max(grid.beside, room_of(request.style, figure, column));
  }
  return grid;
}

}  // namespace

ValueRange range_of(const std::vector<Strips::Series>& series) {
  ValueRange range;
  for (const Strips::Series& one : series) {
    for (const auto& row : one.rows) range.add(values_of(row));
  }
  return range;
}

double Strips::natural_height(const DrawRequest& request) const {
  if (is_turned(*this)) return std::clamp(0.72 * request.width, 150.0, 250.0);
  const double legend_row =
      request.legend && columns.front().series.size() > 1 ? request.style.small * 1.5 + 4.0 : 0.0;
  const double titles = columns.size() > 1 ? request.style.text * 1.7 : request.style.small * 0.5;
  return static_cast<double>(row_names.size()) * row_height + legend_row + titles + 32.0;
}

Scene Strips::draw(const DrawRequest& request) const {
  const Style& style = request.style;
  Scene scene = make_scene(style, request.width, request.height);
  PanelGrid grid = grid_of(*this, request);
  if (request.legend && columns.front().series.size() > 1) {
    grid.top += add_legend(scene, style, {2.0, grid.top}, request.width - 4.0,
                           legend(style, columns.front().series)) +
                4.0;
  }
  const std::vector<Axes> all = add_panels(scene, style, grid);
  for (std::size_t c = 0; c < columns.size(); ++c) {
    const Column& column = columns[c];
    const Axes& axes = all[c];
    const Places places{axes, is_turned(*this)};
    Path rows;
    for (std::size_t r = 1; r < row_names.size(); ++r) {
      const auto edge = static_cast<double>(r);
      rows.move(places.of(places.values().first, edge)).line(places.of(places.values().last, edge));
    }
    add_stroked(scene, std::move(rows), {style.colours.grid, 0.4});
    if (column.reference) add_level(scene, style, axes, *column.reference, "", places.turned);
    if (joined && column.series.size() > 1) add_joints(scene, style, places, column);
    std::size_t in_row = 1;
    for (const auto& row : column.series.front().rows) in_row = std::max(in_row, row.size());
    const double side = places.turned ? axes.plot.width : axes.plot.height;
    const double each = side / static_cast<double>(row_names.size() * in_row);
    for (const Series& series : column.series) {
      add_marks(scene, style, places, series,
                std::clamp(each * 0.9, places.turned ? 1.6 : 2.0, 3.6));
    }
    if (medians && !places.turned) add_medians(scene, style, axes, column);
  }
  keep_fitting_texts(scene);
  return scene;
}

void Strips::write_csv(CsvWriter& csv) const {
  csv.row({"panel", "series", row_measure, "layer", "head", measure});
  for (const Column& column : columns) {
    for (const Series& series : column.series) {
      for (std::size_t r = 0; r < series.rows.size(); ++r) {
        for (const Mark& mark : series.rows[r]) {
          csv.row({column.title, series.name, row_names[r], mark.target.layer, mark.target.head,
                   mark.value});
        }
      }
    }
  }
}

std::string Strips::value_text(const Target& target) const {
  std::string text;
  for (const Column& column : columns) {
    for (const Series& series : column.series) {
      for (std::size_t r = 0; r < series.rows.size(); ++r) {
        for (const Mark& mark : series.rows[r]) {
          if (mark.target.layer != target.layer || mark.target.head != target.head ||
              target.layer < 0) {
            continue;
          }
          if (target.query_head >= 0 && mark.target.query_head != target.query_head) continue;
          if (!text.empty()) text += ", ";
          if (y.meaning != AxisMeaning::layer) text += row_names[r] + " ";
          if (!series.name.empty()) text += series.name + " ";
          text += format_number(mark.value);
        }
      }
    }
  }
  return text;
}

std::unique_ptr<Strips> query_head_strips(const FigureInput& input, Progress& progress,
                                          std::vector<Strips::Series> series, std::string label,
                                          std::string measure, const QueryHeadCosines& numbers) {
  const Trace& trace = *input.trace;
  const int layers = trace.model().num_layers;
  long query_heads = 0;
  for (int layer = 0; layer < layers; ++layer) query_heads += trace.layer_model(layer).num_heads;
  progress.set_total(query_heads);
  progress.count("query heads", query_heads);
  auto figure = std::make_unique<Strips>();
  for (int layer = 0; layer < layers; ++layer) {
    const ModelInfo& model = trace.layer_model(layer);
    for (Strips::Series& one : series) one.rows.emplace_back();
    figure->row_names.push_back(std::to_string(layer));
    Matrix keys;
    for (int q = 0; q < model.num_heads; ++q) {
      progress.advance();
      const int head = model.head_of(q);
      if (q % model.group_size() == 0) keys = trace.key(layer, head);
      const std::vector<double> values = numbers(keys, trace.query(layer, q));
      for (std::size_t i = 0; i < series.size(); ++i) {
        series[i].rows.back().push_back({values[i],
                                         place_in_row(q, model.num_heads),
                                         {.layer = layer, .head = head, .query_head = q},
                                         {}});
      }
    }
  }
  Strips::Column column{.reference = 0.0, .series = std::move(series)};
  column.x = x_axis(std::move(label), cosines_and_zero(range_of(column.series)));
  figure->columns.push_back(std::move(column));
  figure->y = layer_axis(layers);
  figure->row_height = std::clamp(3.2 * trace.most_query_heads(), 12.0, 26.0);
  figure->measure = std::move(measure);
  figure->row_measure = "of_layer";
  return figure;
}

}  // namespace kvloupe::figure
