#pragma once

#include <span>
#include <string_view>

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

}  // namespace kvloupe::window
