#pragma once
// Cells of a table in fewer pixels than there are cells: fates of tokens, in rows of heads or
// steps.

#include <algorithm>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "app/plot/frame.h"
#include "app/scene/colour_map.h"

namespace kvloupe::figure {

/// Rows and columns [first, end) of a table.
struct CellRange {
  int first_row = 0, end_row = 0, first_column = 0, end_column = 0;
  int rows() const { return end_row - first_row; }
  int columns() const { return end_column - first_column; }
};

/// How `count` cells share `pixels` ≤ count equal pixels: cell i lies in pixel `pixel` with the
/// part `here` of its area, and in the next one with the rest.
struct CellPlace {
  int pixel = 0;
  float here = 1.0F;
};
inline std::vector<CellPlace> cell_places(int count, int pixels) {
  std::vector<CellPlace> places(static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i) {
    const auto begin = static_cast<long>(i) * pixels;  // in pixels, times count
    const auto pixel = begin / count;
    const long until = std::min((pixel + 1) * count - begin, static_cast<long>(pixels));
    places[static_cast<std::size_t>(i)] = {static_cast<int>(pixel),
                                           static_cast<float>(until) / static_cast<float>(pixels)};
  }
  return places;
}

/// Paints the cells into at most `width` × `height` pixels, never more than there are cells. A
/// pixel that several cells share has the light of them all, each by its share of the pixel's area
/// (light.h). So the light of the whole picture is that of the cells, whatever its size: no cell is
/// left out and none wins over its neighbours. `colour` (row, column) → Colour.
template <typename ColourOf>
std::shared_ptr<const Pixels> blend_cells(const CellRange& range, int width, int height,
                                          const ColourOf& colour) {
  const int across = std::clamp(width, 1, range.columns());
  const int down = std::clamp(height, 1, range.rows());
  const std::vector<CellPlace> columns = cell_places(range.columns(), across);
  const std::vector<CellPlace> rows = cell_places(range.rows(), down);
  // Light of the row of pixels that is being filled, and of the next one: [across + 1] each.
  std::vector<Light> now(static_cast<std::size_t>(across) + 1), next(now);
  auto pixels = std::make_shared<Pixels>();
  pixels->width = across;
  pixels->height = down;
  pixels->rgba.reserve(static_cast<std::size_t>(across) * static_cast<std::size_t>(down) * 4);
  const float area = static_cast<float>(across) / static_cast<float>(range.columns()) *
                     static_cast<float>(down) / static_cast<float>(range.rows());
  const auto add = [area](Light& sum, const Light& light, float share) {
    for (std::size_t c = 0; c < 3; ++c) sum[c] += light[c] * share * area;
  };
  const auto finish_row = [&] {
    for (int x = 0; x < across; ++x) {
      const Colour c = colour_of(now[static_cast<std::size_t>(x)]);
      pixels->rgba.insert(pixels->rgba.end(), {c.red, c.green, c.blue, c.alpha});
    }
    now.swap(next);
    std::fill(next.begin(), next.end(), Light{});
  };
  for (int r = 0; r < range.rows(); ++r) {
    const CellPlace& row = rows[static_cast<std::size_t>(r)];
    for (int c = 0; c < range.columns(); ++c) {
      const CellPlace& column = columns[static_cast<std::size_t>(c)];
      const auto x = static_cast<std::size_t>(column.pixel);
      const Light light = light_of(colour(range.first_row + r, range.first_column + c));
      add(now[x], light, row.here * column.here);
      if (column.here < 1.0F) add(now[x + 1], light, row.here * (1.0F - column.here));
      if (row.here < 1.0F) {
        add(next[x], light, (1.0F - row.here) * column.here);
        if (column.here < 1.0F) add(next[x + 1], light, (1.0F - row.here) * (1.0F - column.here));
      }
    }
    const bool last = r + 1 == range.rows();
    if (last || rows[static_cast<std::size_t>(r) + 1].pixel > row.pixel) finish_row();
  }
  return pixels;
}

// A small table of values as coloured cells, with the numbers in them if they fit: layers × heads,
// policies × policies.

/// Paints values [rows,columns] (row-major, NaN is empty) over the plot, whose axes are already
/// drawn, with hairlines of paper between cells. Writes each value as `number` formats it: all
/// values or none. `present` [rows]: how many cells of each row there are, empty for all; a row
/// without any, such as a layer without a cache, is a thin line.
void add_cells(Scene& scene, const Style& style, const Axes& axes, std::span<const float> values,
               int rows, int columns, const ColourScale& scale,
               const std::function<std::string(double)>& number = {},
               std::span<const int> present = {});

/// The numbers of add_cells() alone, for what lies between: outlines.
void add_cell_numbers(Scene& scene, const Style& style, const Rect& plot,
                      std::span<const float> values, int rows, int columns,
                      const ColourScale& scale, const std::function<std::string(double)>& number,
                      std::span<const int> present);

/// A caption's sentence about absent rows, with a space before it; empty if all rows have cells.
std::string absent_rows_text(std::span<const int> present);

/// Outlines the marked cells of [rows,columns]: sinks.
void outline_cells(Scene& scene, const Style& style, const Rect& plot,
                   const std::vector<bool>& marked, int rows, int columns);

/// The query heads of one layer, and how many of them share a head; none in a layer without a
/// cache.
struct QueryHeadRow {
  int query_heads = 0;
  int group = 1;
};

/// Lets the pointer find the query heads, and the heads that they belong to, in a map of layers by
/// query heads; `columns`: of the map.
void add_query_head_regions(Scene& scene, const Rect& plot, std::span<const QueryHeadRow> layers,
                            int columns);

/// Lets the pointer find the cells of a map of rows × columns: what `target` (row, column) says,
/// and nothing where it says nothing.
template <typename TargetOf>
void add_cell_regions(Scene& scene, const Rect& plot, std::size_t rows, std::size_t columns,
                      const TargetOf& target) {
  const double width = plot.width / static_cast<double>(columns);
  const double height = plot.height / static_cast<double>(rows);
  for (std::size_t r = 0; r < rows; ++r) {
    for (std::size_t c = 0; c < columns; ++c) {
      const Target found = target(r, c);
      if (found == Target{}) continue;
      scene.regions.push_back({{plot.x + static_cast<double>(c) * width,
                                plot.y + static_cast<double>(r) * height, width, height},
                               found});
    }
  }
}

/// The x axis of a map of query heads, of which so many share a head: where one is not its head, it
/// has its number and cannot be selected.
Axis query_head_axis(int query_heads, int group);
/// Axes of layers (y, downwards) and heads (x).
Axis head_axis(int heads);
Axis layer_axis(int layers);

/// width / height of a map whose cells suit their number: squares, or wider than high if there are
/// few columns, so that numbers fit.
double cell_map_aspect(int rows, int columns);

}  // namespace kvloupe::figure
