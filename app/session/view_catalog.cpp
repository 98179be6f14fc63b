#include "app/session/view_catalog.h"

#include <algorithm>

#include "app/figure/figures/figure_catalog.h"

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

}  // namespace kvloupe::window
