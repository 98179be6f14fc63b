#pragma once

#include <string_view>

#include "app/figure/figure.h"
#include "app/session/state.h"

namespace kvloupe::window {

/// The figure of that name as a view, or nullptr: every figure can be looked at in a tile.
const figure::FigureInfo* find_view(std::string_view name);

/// The state of the window at its first start.
WorkspaceState default_state();
/// The state of a new window: the attention of a head, beside the film strip of a policy.
WorkspaceState first_state();

}  // namespace kvloupe::window
