#pragma once

#include <string_view>

#include "app/figure/figure.h"
#include "app/request/figure_request.h"
#include "app/session/state.h"

namespace kvloupe::window {

/// The figure of that name as a view, or nullptr: every figure can be looked at in a tile.
const figure::FigureInfo* find_view(std::string_view name);

/// The state of the window at its first start.
WorkspaceState default_state();
/// The state of a new window: the attention of a head, beside the film strip of a policy.
WorkspaceState first_state();

/// The request of a tile: its view's choices, and the selection and policies that all views share.
/// The view is one of the catalogue.
request::FigureSettings settings_of(const WorkspaceState& state, const TileState& tile);

/// The grid of layers × heads as a tile: the figure overview of policy A.
TileState grid_tile(const WorkspaceState& state);

}  // namespace kvloupe::window
