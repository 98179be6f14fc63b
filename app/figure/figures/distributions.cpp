#include "app/figure/figures/distributions.h"

#include <algorithm>

#include "analysis/math/norms.h"
#include "app/figure/panel_figure.h"
#include "app/plot/marks.h"
#include "app/plot/panels.h"
#include "app/plot/value_axis.h"
#include "app/scene/scene.h"

namespace kvloupe::figure {

namespace {

std::string median_text(const Distributions::Row& row) {
  return format_number(static_cast<double>(median(row.values)), 3);
}

PanelGrid grid_of(const Distributions& figure, const Style& style) {
  PanelGrid grid{.columns = static_cast<int>(figure.columns.size()), .beside = 2.0};
  for (const Distributions::Column& column : figure.columns) {
    Panel panel{.title = column.title, .x = x_axis(column.label, {column.low, column.high})};
    std::vector<std::string> names;
    for (const Distributions::Row& row : column.rows) {
      names.push_back(row.name);
      grid.beside = std::max(
          grid.beside, 4.0 + style.fonts->width(median_text(row), Font::regular, style.small));
    }
    panel.y = name_axis(std::move(names), column.row_label);
    grid.panels.push_back(std::move(panel));
  }
  return grid;
}

}  // namespace

double Distributions::natural_height(const DrawRequest& request) const {
  std::size_t most = 1;
  for (const Column& column : columns) most = std::max(most, column.rows.size());
  const double row = std::clamp(260.0 / static_cast<double>(most), 9.0, 26.0);
  return static_cast<double>(most) * row + 3.0 * request.style.text + 30.0;
}

Scene Distributions::draw(const DrawRequest& request) const {
  const Style& style = request.style;
  Scene scene = make_scene(style, request.width, request.height);
  PanelGrid grid = grid_of(*this, style);
  show_limits(request, grid);
  const std::vector<Axes> axes = add_panels(scene, style, grid);
  const double cap = style.fonts->cap_height() * style.small;
  for (std::size_t c = 0; c < columns.size(); ++c) {
    const Column& column = columns[c];
    const Rect& plot = axes[c].plot;
    if (column.reference >= column.low)
      add_level(scene, style, axes[c], column.reference, "", false);
    for (std::size_t r = 0; r < column.rows.size(); ++r) {
      const Row& row = column.rows[r];
      const auto cell = static_cast<double>(r);
      add_ridge(scene, style, axes[c], cell, row.values, row.chosen);
      const double top = axes[c].to_page(column.low, cell).y;
      const double bottom = axes[c].to_page(column.low, cell + 1.0).y;
      scene.regions.push_back(
          {{plot.x, top, plot.width, bottom - top},
           Target{.layer = layer, .head = row.head, .query_head = row.query_head}});
      if (bottom - top < style.small * 1.05) continue;  // the rows are too close for numbers
      Text number = make_text(style, median_text(row),
                              {plot.right() + 3.0, bottom - (bottom - top - cap) / 2}, style.small);
      number.colour = style.colours.faint;
      if (number.bounds().right() <= scene.width) scene.add(std::move(number));
    }
  }
  keep_fitting_texts(scene);
  return scene;
}

void Distributions::write_csv(CsvWriter& csv) const {
  csv.row({"of", "layer", "head", "token", measure});
  for (const Column& column : columns) {
    for (const Row& row : column.rows) {
      for (std::size_t t = 0; t < row.values.size(); ++t) {
        csv.row({column.title, layer, row.name, t, row.values[t]});
      }
    }
  }
}

std::string Distributions::value_text(const Target& target) const {
  std::string text;
  for (const Column& column : columns) {
    for (const Row& row : column.rows) {
      if (row.head != target.head) continue;
      if (target.query_head >= 0 && row.query_head >= 0 && row.query_head != target.query_head)
        continue;
      if (!text.empty()) text += ", ";
      text += column.title + " " + row.name + ": median " + median_text(row);
    }
  }
  return text;
}

std::unique_ptr<Distributions> layer_distributions(
    const FigureInput& input, Progress& progress, std::string measure,
    std::vector<Distributions::Column> columns,
    const std::function<std::vector<float>(const Matrix& rows)>& numbers) {
  const Trace& trace = *input.trace;
  const Selection& s = input.selection;
  const ModelInfo& layer = trace.layer_model(s.layer);
  progress.set_total(layer.num_kv_heads + layer.num_heads);
  for (int h = 0; h < layer.num_kv_heads; ++h) {
    progress.advance();
    columns[0].rows.push_back({std::to_string(h), h, h == s.head, numbers(trace.key(s.layer, h))});
    if (columns.size() < 3) continue;
    columns[2].rows.push_back(
        {std::to_string(h), h, h == s.head, numbers(trace.value(s.layer, h))});
  }
  for (int q = 0; q < layer.num_heads; ++q) {
    progress.advance();
    const int head = layer.head_of(q);
    const bool chosen = s.query_head >= 0 ? q == s.query_head : head == s.head;
    columns[1].rows.push_back(
        {std::to_string(q), head, chosen, numbers(trace.query(s.layer, q)), q});
  }
  auto figure = std::make_unique<Distributions>();
  figure->layer = s.layer;
  figure->measure = std::move(measure);
  figure->columns = std::move(columns);
  return figure;
}

}  // namespace kvloupe::figure
