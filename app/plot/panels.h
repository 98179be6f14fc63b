#pragma once
// Small multiples: panels in rows and columns that share axes where possible.

#include <string>
#include <vector>

#include "app/plot/frame.h"

namespace kvloupe::figure {

/// One panel, before its place is known.
struct Panel {
  std::string title = {};
  Axis x = {};
  Axis y = {};
  bool x_grid = false;  // light lines where values are read off
  bool y_grid = false;
  bool is_map = false;  // cells fill it to its edges: no axis lines
};

struct PanelGrid {
  std::vector<Panel> panels = {};
  int columns = 0;            // 0: as many as leave each panel `least_width`, more in a low figure
  double least_width = 70.0;  // points
  double aspect = 1.3;        // width / height of a plot, where the height is free
  double top = 2.0;           // room above all, for a legend
  double beside = 4.0;        // room right of each plot: for its labels at the lines' ends
  double right = 0.0;         // room right of all, for a colour bar
  double below = 0.0;         // room under all
  bool letters = true;        // bold a, b, c, where there are several
};

/// Draws the axes, letters and titles; returns the place of each panel's plot. The labels of an
/// axis are written once if neighbours in a row (y) or a column (x) have the same axis.
std::vector<Axes> add_panels(Scene& scene, const Style& style, const PanelGrid& grid);

/// The least rectangle around all plots: a colour bar beside it is one for all panels.
Rect around(const std::vector<Axes>& axes);

/// The height at which the plots have the grid's aspect.
double panels_natural_height(const Style& style, const PanelGrid& grid, double width);

}  // namespace kvloupe::figure
