#include "app/session/view_catalog.h"

#include <algorithm>

#include "app/figure/figures/figure_catalog.h"
#include "app/figure/figures/overview_measures.h"

namespace kvloupe::window {

const figure::FigureInfo* find_view(std::string_view name) {
  const auto views = figure::figure_catalog();
  const auto it = std::find_if(views.begin(), views.end(),
                               [&](const figure::FigureInfo& view) { return view.name == name; });
  return it == views.end() ? nullptr : &*it;
}

WorkspaceState default_state() {
  WorkspaceState state;
  for (const char* view : {"filmstrip", "similarity", "attention", "pca"}) {
    state.tiles.push_back({.view = view});
  }
  return state;
}

WorkspaceState first_state() {
  WorkspaceState state;
  for (const char* view : {"attention", "filmstrip", "similarity", "pca"}) {
    state.tiles.push_back({.view = view});
  }
  state.tile_count = 2;
  return state;
}

request::FigureSettings settings_of(const WorkspaceState& state, const TileState& tile) {
  const figure::Selection& at = state.selection;
  request::FigureSettings settings{.layer = at.layer, .head = at.head};
  if (tile.pinned) {
    settings.layer = tile.pinned->layer;
    settings.head = tile.pinned->head;
  } else if (at.query_head >= 0) {
    settings.query_head = at.query_head;
  }
  if (at.step >= 0) settings.step = at.step;
  if (at.token >= 0) settings.token = at.token;
  if (at.first_token > 0 || at.last_token >= 0) settings.tokens = {at.first_token, at.last_token};
  // A figure that compares the two looks at both.
  const bool compares = needs_of(*find_view(tile.view), tile.choices).policy_b;
  const PolicySide side = compares ? PolicySide::both : tile.side;
  settings.policy = side == PolicySide::b ? state.policy_b : state.policy_a;
  if (state.policy_b_on && side == PolicySide::both) settings.policy_b = state.policy_b;
  settings.budget = state.budget;
  settings.block = state.block;
  settings.compression = state.compression;
  settings.choices = tile.choices;
  return settings;
}

TileState grid_tile(const WorkspaceState& state) {
  TileState tile{.view = "overview", .choices = {{"measure", state.grid_measure}}};
  if (state.grid_scale != "auto") tile.choices["scale"] = state.grid_scale;
  if (state.grid_measure == figure::kFollowedMeasure) tile.choices["tokens"] = state.followed;
  tile.side = PolicySide::a;
  return tile;
}

}  // namespace kvloupe::window
