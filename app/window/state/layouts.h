#pragma once

#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "app/session/state.h"
#include "app/window/widgets/commands.h"

namespace kvloupe::window {

/// A named set of views for one kind of question.
struct Layout {
  std::string_view name;
  Command command;
  std::string_view words;  // what it is for
};

/// Every layout, in the order of the menu.
std::span<const Layout> layouts();

/// Shows the layout's views, each with default settings, and its panels. Changes neither trace nor
/// selection; switches policy B on if the layout shows two policies.
void apply_layout(const Layout& layout, WorkspaceState& state);

/// The same view twice, side by side: under policy A, and under policy B.
void show_a_beside_b(WorkspaceState& state);

/// The tiles as they were before a head was pinned.
struct TilesBefore {
  std::vector<TileState> tiles;
  int count = 1;
  int active = 0;
};

/// The tile in sight that shows a pinned head; nullptr: none.
const TileState* pinned_tile(const WorkspaceState& state);

/// The same view twice, side by side: of the head that is selected, and of the one selected now,
/// which is pinned. A view that shows no single head gives way to the film strip.
TilesBefore pin_head(WorkspaceState& state);

/// Ends that: the view of the selected head stays, among the tiles of `before` where that is known.
void unpin_head(WorkspaceState& state, const std::optional<TilesBefore>& before);

/// Keeps the two views of pin_head() the same: the active one leads the other.
void keep_pinned_alike(WorkspaceState& state);

}  // namespace kvloupe::window
