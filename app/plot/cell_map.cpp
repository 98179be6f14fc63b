#include "app/plot/cell_map.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "app/plot/value_axis.h"

namespace kvloupe::figure {

namespace {

/// Hairlines of paper between the cells, where these are large enough to bear them.
void add_gaps(Scene& scene, const Style& style, const Rect& plot, int rows, int columns) {
  const double width = plot.width / columns;
  const double height = plot.height / rows;
  if (std::min(width, height) < 4.0) return;
  Path gaps;
  for (int c = 1; c < columns; ++c)
    gaps.move({plot.x + c * width, plot.y}).line({plot.x + c * width, plot.bottom()});
  for (int r = 1; r < rows; ++r)
    gaps.move({plot.x, plot.y + r * height}).line({plot.right(), plot.y + r * height});
  add_stroked(scene, std::move(gaps), {style.colours.paper, 0.8});
}

/// A thin line for each row without cells.
void add_absent_rows(Scene& scene, const Style& style, const Rect& plot,
                     std::span<const int> present) {
  const double height = plot.height / static_cast<double>(std::max<std::size_t>(present.size(), 1));
  Path lines;
  for (std::size_t row = 0; row < present.size(); ++row) {
    if (present[row] > 0) continue;
    const double y = plot.y + (static_cast<double>(row) + 0.5) * height;
    lines.move({plot.x, y}).line({plot.right(), y});
  }
  add_stroked(scene, std::move(lines), {style.colours.faint, 0.5});
}

}  // namespace

void add_cell_numbers(Scene& scene, const Style& style, const Rect& plot,
                      std::span<const float> values, int rows, int columns,
                      const ColourScale& scale, const std::function<std::string(double)>& number,
                      std::span<const int> present) {
  const double width = plot.width / columns;
  const double height = plot.height / rows;
  if (height < style.small * 1.3) return;
  const ColourLookup lookup(scale);
  std::vector<Text> texts;
  std::vector<Colour> grounds;
  for (int r = 0; r < rows; ++r) {
    const int there = present.empty() ? columns : present[static_cast<std::size_t>(r)];
    for (int c = 0; c < there; ++c) {
      const auto value = static_cast<double>(values[static_cast<std::size_t>(r * columns + c)]);
      const Point middle{plot.x + (c + 0.5) * width, plot.y + (r + 0.5) * height};
      Text text = make_text(style, std::isnan(value) ? "–" : number(value),
                            {middle.x, middle.y + style.fonts->cap_height() * style.small / 2},
                            style.small, Font::regular, Align::centre);
      if (text.width > width - 3.0) return;
      grounds.push_back(lookup(value));
      texts.push_back(std::move(text));
    }
  }
  add_on_grounds(scene, style, std::move(texts), grounds);
}

void add_cells(Scene& scene, const Style& style, const Axes& axes, std::span<const float> values,
               int rows, int columns, const ColourScale& scale,
               const std::function<std::string(double)>& number, std::span<const int> present) {
  if (rows <= 0 || columns <= 0) return;
  add_image(scene, paint(values, columns, rows, scale), axes.plot);
  add_gaps(scene, style, axes.plot, rows, columns);
  if (number)
    add_cell_numbers(scene, style, axes.plot, values, rows, columns, scale, number, present);
  add_absent_rows(scene, style, axes.plot, present);
}

std::string absent_rows_text(std::span<const int> present) {
  const bool any =
      std::any_of(present.begin(), present.end(), [](int cells) { return cells <= 0; });
  return any ? " A thin line is a layer without a cache." : "";
}

void outline_cells(Scene& scene, const Style& style, const Rect& plot,
                   const std::vector<bool>& marked, int rows, int columns) {
  const double width = plot.width / columns;
  const double height = plot.height / rows;
  // Thinner in cells of a few points, so that their colour is still seen.
  const double line = std::min(1.0, 0.15 * std::min(width, height));
  const double inset = 0.4 + line / 2;  // within the hairlines of paper
  Path outlines;
  for (int r = 0; r < rows; ++r) {
    for (int c = 0; c < columns; ++c) {
      if (!marked[static_cast<std::size_t>(r * columns + c)]) continue;
      outlines.rect({plot.x + c * width + inset, plot.y + r * height + inset,
                     std::max(0.1, width - 2 * inset), std::max(0.1, height - 2 * inset)});
    }
  }
  add_stroked(scene, std::move(outlines), {style.colours.ink, line});
}

void add_query_head_regions(Scene& scene, const Rect& plot, std::span<const QueryHeadRow> layers,
                            int columns) {
  const double width = plot.width / columns;
  const double height = plot.height / static_cast<double>(layers.size());
  for (int layer = 0; layer < static_cast<int>(layers.size()); ++layer) {
    const QueryHeadRow& row = layers[static_cast<std::size_t>(layer)];
    for (int q = 0; q < row.query_heads; ++q) {
      scene.regions.push_back({{plot.x + q * width, plot.y + layer * height, width, height},
                               {.layer = layer, .head = q / row.group, .query_head = q}});
    }
  }
}

Axis query_head_axis(int query_heads, int group) {
  if (group == 1) return head_axis(query_heads);
  std::vector<std::string> names;
  for (int head = 0; head < query_heads; ++head) names.push_back(std::to_string(head));
  return name_axis(std::move(names), "Query head");
}

Axis head_axis(int heads) {
  return {AxisMeaning::head, AxisScale::linear, 0.0, static_cast<double>(heads), "Head"};
}

Axis layer_axis(int layers) {
  return {AxisMeaning::layer, AxisScale::linear, 0.0, static_cast<double>(layers), "Layer"};
}

double cell_map_aspect(int rows, int columns) {
  const double cell = columns <= 12 ? 1.8 : 1.0;  // width / height of one
  return std::clamp(cell * columns / std::max(1, rows), 0.4, 4.0);
}

}  // namespace kvloupe::figure
