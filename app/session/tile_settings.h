#pragma once

#include "app/request/figure_request.h"
#include "app/session/state.h"

namespace kvloupe::window {

/// The request of a tile: its view's choices, and the selection and policies that all views share.
/// The view is one of the catalogue.
request::FigureSettings settings_of(const WorkspaceState& state, const TileState& tile);

/// The grid of layers × heads as a tile: the figure overview of policy A.
TileState grid_tile(const WorkspaceState& state);

}  // namespace kvloupe::window
