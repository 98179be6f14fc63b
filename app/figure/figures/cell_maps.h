#pragma once
// The figure behind those that are maps of cells, each a panel, with one colour bar for all.

#include <functional>
#include <string>
#include <vector>

#include "app/figure/panel_figure.h"
#include "app/plot/cell_map.h"
#include "app/plot/value_axis.h"

namespace kvloupe::figure {

class CellMaps : public PanelFigure {
 public:
  struct Map {
    std::string title = {};
    std::vector<float> values = {};   // [rows,columns]; NaN: none
    std::vector<bool> outlined = {};  // [rows,columns]; empty: none
    std::vector<int> runs = {};  // [rows,columns] Target::run of each cell; −1 or empty: none
  };
  std::vector<Map> maps;
  int rows = 0, columns = 0;
  Axis x, y;                                       // of each
  ColourScale colours;                             // the style has their map
  Bounds bounds = {};                              // of the limits that a person chooses
  std::function<std::string(double)> number = {};  // in the cells; empty: none
  std::vector<int> present = {};                   // [rows] columns that there are; empty: all
  std::vector<QueryHeadRow> query_heads = {};      // [rows], where the columns are query heads
  PanelGrid shape = {};                            // without panels and colour bar
  double least_height = 0.0;                       // points
  double height = 0.0;                             // of all; 0: as the shape wants
  double bar_height = 80.0;                        // for which the bar gets its room
  bool bar_may_miss = false;                       // where a stamp has no room for it

  double natural_height(const DrawRequest& request) const override;

  /// Whether there is such a cell.
  bool has(int row, int column) const;
  /// The colours go from the least value of all maps, or from 0, to the greatest.
  void fit_colours(bool from_zero = false);

 protected:
  PanelGrid grid(const DrawRequest& request) const override;
  void draw_panels(Scene& scene, const DrawRequest& request,
                   const std::vector<Axes>& axes) const override;

 private:
  ColourScale scale(const DrawRequest& request) const;
};

}  // namespace kvloupe::figure
