#pragma once
// A small table of values as coloured cells, with the numbers in them if they fit: layers × heads,
// policies × policies.

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "app/plot/frame.h"

namespace kvloupe::figure {

/// Paints values [rows,columns] (row-major, NaN is empty) over the plot, whose axes are already
/// drawn, with hairlines of paper between cells. Writes each value as `number` formats it: all
/// values or none. `present` [rows]: how many cells of each row there are, empty for all; a row
/// without any, such as a layer without a cache, is a thin line.
void add_cells(Scene& scene, const Style& style, const Axes& axes, std::span<const float> values,
               int rows, int columns, const ColourScale& scale,
               const std::function<std::string(double)>& number = {},
               std::span<const int> present = {});

/// The thin lines of add_cells() alone.
void add_absent_rows(Scene& scene, const Style& style, const Rect& plot,
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

/// Axes of layers (y, downwards) and heads (x).
Axis head_axis(int heads);
Axis layer_axis(int layers);

/// width / height of a map whose cells suit their number: squares, or wider than high if there are
/// few columns, so that numbers fit.
double cell_map_aspect(int rows, int columns);

}  // namespace kvloupe::figure
