#pragma once
// Limits that the panels of two pictures share, so that these can be compared side by side.

#include <optional>
#include <vector>

#include "app/figure/figure.h"
#include "app/plot/panels.h"

namespace kvloupe::figure {

/// Applies the request's limits to each panel, if it has as many; axes of names, tokens and steps
/// and a map's own stay as they are. Call it before the panels are drawn.
void show_limits(const DrawRequest& request, PanelGrid& grid);

/// The least limits that hold those of both pictures' axes, for axes of values that are alike in
/// both: so many panels, the same scale. Empty if the pictures share no limits.
std::vector<PanelLimits> shared_limits(const std::vector<Axes>& a, const std::vector<Axes>& b);

}  // namespace kvloupe::figure
