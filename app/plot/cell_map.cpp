#include "app/plot/cell_map.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

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
  if (gaps.verbs.empty()) return;
  gaps.stroke = Stroke{style.colours.paper, 0.8, {}, Cap::butt};
  scene.add(std::move(gaps));
}

/// The numbers themselves, where all fit.
void add_numbers(Scene& scene, const Style& style, const Rect& plot, std::span<const float> values,
                 int rows, int columns, const ColourScale& scale,
                 const std::function<std::string(double)>& number) {
  const double width = plot.width / columns;
  const double height = plot.height / rows;
  if (height < style.small * 1.3) return;
  const ColourLookup lookup(scale);
  std::vector<Text> texts;
  std::vector<Colour> grounds;
  for (int r = 0; r < rows; ++r) {
    for (int c = 0; c < columns; ++c) {
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

}  // namespace

void add_cells(Scene& scene, const Style& style, const Axes& axes, std::span<const float> values,
               int rows, int columns, const ColourScale& scale,
               const std::function<std::string(double)>& number) {
  if (rows <= 0 || columns <= 0) return;
  auto pixels = paint(values, columns, rows, scale);
  std::string key = image_key(*pixels);
  scene.add(Image{std::move(pixels), axes.plot, std::move(key), Interpolation::nearest});
  add_gaps(scene, style, axes.plot, rows, columns);
  if (number) add_numbers(scene, style, axes.plot, values, rows, columns, scale, number);
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
  if (outlines.verbs.empty()) return;
  outlines.stroke = Stroke{style.colours.ink, line, {}, Cap::butt};
  scene.add(std::move(outlines));
}

void add_query_head_regions(Scene& scene, const Rect& plot, int layers, int query_heads,
                            int group) {
  const double width = plot.width / query_heads, height = plot.height / layers;
  for (int layer = 0; layer < layers; ++layer) {
    for (int q = 0; q < query_heads; ++q) {
      scene.regions.push_back({{plot.x + q * width, plot.y + layer * height, width, height},
                               {.layer = layer, .head = q / group, .query_head = q}});
    }
  }
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
