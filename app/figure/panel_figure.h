#pragma once
// Common parts of figures of panels: a legend above all of them, and limits that two pictures
// share.

#include <span>
#include <variant>
#include <vector>

#include "app/figure/figure.h"
#include "app/plot/panels.h"
#include "app/plot/series.h"

namespace kvloupe::figure {

/// Draws the legend at the top of the grid's room, and moves the panels below it. Does nothing if
/// the request has no legend or there are no entries.
void add_top_legend(Scene& scene, const DrawRequest& request, PanelGrid& grid,
                    std::span<const LegendEntry> entries);
void add_top_legend(Scene& scene, const DrawRequest& request, PanelGrid& grid,
                    const std::vector<SeriesLabel>& labels);

/// Shows what the request says of each panel, where it speaks of as many; axes of names, tokens and
/// steps and a map's own stay as they are. Call it before the panels are drawn.
void show_limits(const DrawRequest& request, PanelGrid& grid);

/// A figure that is panels, under a legend where it has one. Texts that do not fit are left out.
class PanelFigure : public Figure {
 public:
  double natural_height(const DrawRequest& request) const override;
  Scene draw(const DrawRequest& request) const final;

 protected:
  using Legend = std::variant<std::vector<LegendEntry>, std::vector<SeriesLabel>>;
  virtual PanelGrid grid(const DrawRequest& request) const = 0;
  virtual Legend legend(const Style& /*style*/) const { return {}; }
  /// Whether it shows the request's limits of its panels (show_limits).
  virtual bool shares_limits() const { return false; }
  virtual void draw_panels(Scene& scene, const DrawRequest& request,
                           const std::vector<Axes>& axes) const = 0;

 private:
  /// The grid below its legend, which is drawn into the scene.
  PanelGrid below_legend(Scene& scene, const DrawRequest& request) const;
};

/// The least limits that hold those of both pictures' axes, for axes of values that are alike in
/// both: so many panels, the same scale. Empty where nothing is to be shared.
std::vector<PanelLimits> shared_limits(const std::vector<Axes>& a, const std::vector<Axes>& b);

}  // namespace kvloupe::figure
