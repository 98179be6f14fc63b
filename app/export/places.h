#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "app/export/value_texts.h"
#include "app/scene/scene.h"

namespace kvloupe::figure {
class Figure;
}

namespace kvloupe::figure::html {

/// The cells of one plot that the pointer finds, and how many of them share a text.
struct CellTable {
  AxisMeaning x = AxisMeaning::value, y = AxisMeaning::value;
  int x_first = 0, x_count = 1;  // of a value axis: one cell
  int y_first = 0, y_count = 1;
  int x_every = 1, y_every = 1;  // one text for this many cells, that of the middle one
  bool operator==(const CellTable&) const = default;
  int x_kept() const { return (x_count + x_every - 1) / x_every; }
  int y_kept() const { return (y_count + y_every - 1) / y_every; }
  /// The target of the kept cell (x, y).
  Target target(int x_kept, int y_kept) const;
};

/// The tables of a scene's axes. Plots with the same cells share one table; `of_axes` gives the
/// table of each plot (-1: none, its axes are of values). At most `most` cells in all keep a text.
std::vector<CellTable> cell_tables(const Scene& scene, std::size_t most, std::vector<int>& of_axes);

/// The data that page.js needs about a scene: axes, regions, lines, points, as Scene::pick and where use
/// them. Lengths are tenths of a point.
nlohmann::ordered_json places_json(const Scene& scene, const std::vector<CellTable>& tables,
                                   const std::vector<int>& of_axes);

/// The figure's texts at each place, in the order points, lines, regions, tables (row by row): a stream of
/// `texts`.
std::string place_values(const Scene& scene, const std::vector<CellTable>& tables,
                         const Figure* figure, ValueTexts& texts);

}  // namespace kvloupe::figure::html
