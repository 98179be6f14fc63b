#pragma once
// The figure behind those that are lines in one or several panels.

#include <memory>
#include <string>
#include <vector>

#include "app/figure/figure.h"
#include "app/plot/ticks.h"
#include "app/plot/value_axis.h"

namespace kvloupe::figure {

class LinePanels final : public Figure {
 public:
  struct Line {
    std::string name = {};           // at its end, or in the legend; empty: none
    std::vector<Point> points = {};  // data; not finite: a gap
    int look = 0;                    // place among the series; −1: ink
    bool thin = false;               // one of many
    bool marked = false;             // a mark at every point
    bool marks_only = false;         // open marks and no line: what was measured
    bool dashed = false;             // what is only expected
    bool chance = false;             // the line of chance: no look of its own, no marks
    std::string id = {};             // in the CSV, where it has no name
    Target target = {};              // the head that it is of, for the pointer
  };
  struct Band {
    std::vector<double> x = {}, low = {}, high = {};
    int look = 0;
    std::string low_id = {}, high_id = {};  // its edges in the CSV; empty: not there
  };
  /// Marks of one look, and no line.
  struct Dots {
    std::string name = {};  // in the legend; empty: none
    std::vector<Point> points = {};
    std::vector<std::int32_t> tokens = {};  // of the points, for the pointer
    Colour Palette::*colour = &Palette::retained;
    int look = -1;  // place among the series: its colour in place of that one
    MarkerShape shape = MarkerShape::circle;
    bool filled = true;
    double size = 3.0;
    int over = 0;             // they hide those with less
    std::string beside = {};  // the first of them
  };
  /// All values of one group in a cell of the x axis, side by side, with the look of a line.
  struct Strip {
    double cell = 0.0;
    std::vector<double> values = {};
    int look = 0;
    bool chance = false;
    bool faint = false;      // beside others that matter more
    bool with_mean = false;  // a rule, with its interval where low is not high
    double mean = 0.0, low = 0.0, high = 0.0;
  };
  struct Level {
    double value = 0.0;
    std::string name;
    bool along_x = true;
  };
  /// Shares of the height along the bottom, from `low` to `high` of the x axis in even steps.
  struct Ground {
    double low = 0.0, high = 1.0;
    std::vector<double> heights;  // of the panel, 0 to 1
  };
  struct Panel {
    std::string title = {};
    Axis x = {}, y = {};
    std::vector<Line> lines = {};
    std::vector<Band> bands = {};
    std::vector<Level> levels = {};
    std::vector<Ground> grounds = {};
    std::vector<Dots> dots = {};
    std::vector<Strip> strips = {};
    std::string note = {};                               // in the middle
    std::vector<std::string> names_without_legend = {};  // of the x axis; empty: as it is
    bool y_grid = false;
    std::string id = {};  // in the CSV, where it has no title
  };
  std::vector<Panel> panels;
  int columns = 0;                               // 0: as fits
  double aspect = 1.3;                           // of a panel
  double least_width = 70.0, beside = 4.0;       // of PanelGrid
  bool legend = false;                           // above all, not at the ends of the lines
  std::string x_measure = "x", y_measure = "y";  // names in the CSV, if no rows are added

  double natural_height(const DrawRequest& request) const override;
  Scene draw(const DrawRequest& request) const override;
  void write_csv(CsvWriter& csv) const override;
};

/// Such a figure of one panel, or of two beside each other, with its names in the CSV.
std::unique_ptr<LinePanels> line_panels(std::string x_measure, std::string y_measure,
                                        std::vector<LinePanels::Panel> panels);

/// An axis with the names of layers 0 to `layers` − 1, and `more` after them.
Axis layer_names_axis(int layers, std::string label = "Layer", std::vector<std::string> more = {});

/// Draws the lines of a panel that are chance beside another of `policies` (random_line_name()) as
/// such, with their bands; lines have the policies' specs as names, or as ids where they have none.
void mark_chance(LinePanels::Panel& panel, const std::vector<std::string>& policies);

/// With more layers than this, curves over layers take the whole width: their names go above.
inline constexpr int kManyLayers = 16;

/// The scale of curves over layers, under the usual name, scale: auto, linear or log.
ChoiceInfo curve_scale_choice();

/// The axis of a panel's values from 0, or a logarithmic one over those above 0; "auto": the
/// logarithmic one where all values are above 0 and the largest is 30 times the smallest or more.
Axis curve_axis(std::string label, const LinePanels::Panel& panel, const std::string& scale);

/// A caption's words about such an axis, with a space before them; empty for a linear one.
std::string curve_scale_words(const LinePanels::Panel& panel);

}  // namespace kvloupe::figure
