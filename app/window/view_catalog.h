#pragma once

#include <span>
#include <string_view>

#include "app/figure/figure.h"
#include "app/window/state.h"

namespace kvloupe::window {

/// Which axes of a view the wheel and the pointer move.
enum class Zoom {
  none,
  x,       // tokens along x only
  both,    // each axis for itself
  linked,  // the same range on both: token by token
};

/// One line of the catalogue: a figure that a tile can show.
struct ViewEntry {
  std::string_view figure;  // name in the figure catalogue, which has title, tooltip and choices
  Zoom zoom = Zoom::none;
  bool limits = false;  // has a colour bar whose limits can be dragged
};

/// Every view; lists show them by topic.
std::span<const ViewEntry> view_catalog();
/// The view of that name, or nullptr.
const ViewEntry* find_view(std::string_view name);
const figure::FigureInfo& info(const ViewEntry& view);

/// The heading a view is listed under: the question it answers, and the paper that asks it.
std::string_view topic_of(const ViewEntry& view);

/// Throws UsageError if a choice or its value is unknown to the view's figure.
void check_choices(const ViewEntry& view, const figure::Choices& choices);

/// The state of the window at its first start.
WorkspaceState default_state();
/// The state of a new window: the attention of a head, beside the film strip of a policy.
WorkspaceState first_state();

}  // namespace kvloupe::window
