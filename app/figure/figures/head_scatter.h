#pragma once
// The figure behind those that show every head as a dot between two numbers, a panel for each
// policy. The pointer finds the heads; the highest dots have their names.

#include <string>
#include <utility>
#include <vector>

#include "analysis/base/text/unknown.h"
#include "app/figure/panel_figure.h"
#include "app/plot/value_axis.h"

namespace kvloupe::figure {

/// "−0.52"; "not known" for NaN.
std::string correlation_text(double rho);

/// The names of the highest dots, each where it covers no dot, no line and no other name; else
/// it has none. `diagonal`: a line x = y crosses the plot; `taken`: other marks drawn there.
void add_dot_names(Scene& scene, const Style& style, const Axes& axes,
                   std::vector<std::pair<Point, std::string>> dots, double size, bool diagonal,
                   std::vector<Rect> taken = {});

class HeadScatter final : public PanelFigure {
 public:
  struct Dot {
    int layer = 0;
    int head = 0;  // key-value head
    double x = kUnknown;
    double y = kUnknown;
  };
  struct Panel {
    std::string policy;
    std::vector<Dot> dots;
    std::string title = {};  // empty: the policy and ρ
    Axis x = {}, y = {};     // without a label: those of all panels
  };
  std::vector<Panel> panels;
  PanelGrid shape{.least_width = 90.0, .aspect = 1.1, .beside = 6.0};
  bool of_evicted = false;       // all in the colour of what is evicted, not a look for each panel
  double size = 0.0;             // of a dot, points; 0: as suits their number
  bool whole_caption = false;    // caption_text says all
  std::string x_label, y_label;  // of the axes
  std::string x_name, y_name;    // short, for the read-out: "θ"
  std::string x_measure, y_measure;  // in the CSV
  bool x_log = true, y_log = true;
  bool diagonal = false;  // a line x = y; both axes are alike then

  /// Spearman's ρ of the dots' numbers, over the heads with both; NaN: fewer than two differ.
  static double correlation(const Panel& panel);
  /// How many heads have both numbers, and how many of those have a place on the axes.
  long known(const Panel& panel) const;
  long drawn(const Panel& panel) const;

  /// The least share of a logarithmic axis' largest number that is drawn. Smaller numbers are
  /// rounding errors and would stretch the axis.
  static constexpr double kLeastDrawn = 1e-9;
  /// The smallest numbers that have a place on the axes.
  Dot least() const;
  /// Whether a dot has both numbers and a place on the axes.
  bool has_place(const Dot& dot, const Dot& least) const;

  void write_csv(CsvWriter& csv) const override;
  std::string value_text(const Target& target) const override;
  std::string caption() const override;

 private:
  PanelGrid grid(const DrawRequest& request) const override;
  void draw_panels(Scene& scene, const DrawRequest& request,
                   const std::vector<Axes>& all) const override;
};

}  // namespace kvloupe::figure
