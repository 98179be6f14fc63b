#include "app/window/state/layouts.h"

#include <algorithm>
#include <array>
#include <string>

#include "app/figure/figures/overview_measures.h"
#include "app/session/view_catalog.h"

namespace kvloupe::window {

namespace {

constexpr std::array kLayouts = {
    Layout{"Explore", Command::layout_explore,
           "one head: its keys, its attention, and which entries are evicted at which step"},
    Layout{"Compare", Command::layout_compare, "two policies on one head, and where they differ"},
    Layout{"Merge", Command::layout_merge, "which keys are alike, and which entries are merged"},
    Layout{"Sinks", Command::layout_sinks, "attention sinks, and which policies evict them"},
    Layout{"Figure", Command::layout_figure, "one view alone, as in a paper"},
};

TileState tile(std::string view, PolicySide side = PolicySide::both) {
  return {.view = std::move(view), .side = side};
}

/// Layers × heads by the strength of their sinks.
TileState sink_map() { return {.view = "overview", .choices = {{"measure", "sinks"}}}; }

void show(WorkspaceState& state, std::vector<TileState> tiles) {
  state.tile_count = static_cast<int>(tiles.size());
  state.active_tile = 0;
  std::move(tiles.begin(), tiles.end(), state.tiles.begin());
}

/// The tiles in sight.
template <class State>
auto in_sight(State& state) {
  return std::span(state.tiles).first(static_cast<std::size_t>(state.tile_count));
}

}  // namespace

std::span<const Layout> layouts() { return kLayouts; }

void apply_layout(const Layout& layout, WorkspaceState& state) {
  const bool figure_alone = layout.command == Command::layout_figure;
  state.left_panel = state.bottom_panel = state.right_panel = !figure_alone;
  switch (layout.command) {
    case Command::layout_explore:
      show(state, {tile("similarity"), tile("attention"), tile("filmstrip")});
      break;
    case Command::layout_compare:
      state.policy_b_on = true;
      state.grid_measure = figure::kOverlapMeasure;
      state.token_colour = "difference";
      show(state, {tile("filmstrip", PolicySide::a), tile("filmstrip", PolicySide::b),
                   tile("policy-diff")});
      break;
    case Command::layout_merge:
      show(state, {tile("similarity"), tile("merge-sets"), tile("filmstrip")});
      break;
    case Command::layout_sinks:
      show(state, {tile("attention"), sink_map(), tile("sinks")});
      break;
    default:
      show(state, {state.tiles[static_cast<std::size_t>(state.active_tile)]});
      break;
  }
}

void show_a_beside_b(WorkspaceState& state) {
  TileState tile = state.tiles[static_cast<std::size_t>(state.active_tile)];
  const figure::FigureInfo* view = find_view(tile.view);
  if (!view || !needs_of(*view, tile.choices).replay()) tile = TileState{.view = "filmstrip"};
  state.policy_b_on = true;
  tile.side = PolicySide::a;
  state.tiles[0] = tile;
  tile.side = PolicySide::b;
  state.tiles[1] = tile;
  state.tile_count = 2;
  state.active_tile = 0;
}

const TileState* pinned_tile(const WorkspaceState& state) {
  const auto tiles = in_sight(state);
  const auto found = std::find_if(tiles.begin(), tiles.end(),
                                  [](const TileState& one) { return one.pinned.has_value(); });
  return found == tiles.end() ? nullptr : &*found;
}

TilesBefore pin_head(WorkspaceState& state) {
  TilesBefore before{state.tiles, state.tile_count, state.active_tile};
  TileState tile = state.tiles[static_cast<std::size_t>(state.active_tile)];
  const figure::FigureInfo* view = find_view(tile.view);
  if (view == nullptr || !needs_of(*view, tile.choices).head) tile = TileState{.view = "filmstrip"};
  state.tiles[0] = tile;
  tile.pinned = HeadIndex{state.selection.layer, state.selection.head};
  state.tiles[1] = tile;
  state.tile_count = 2;
  state.active_tile = 0;
  return before;
}

void unpin_head(WorkspaceState& state, const std::optional<TilesBefore>& before) {
  if (!before) {
    const auto shown = in_sight(state);
    const auto left = std::stable_partition(
        shown.begin(), shown.end(), [](const TileState& one) { return !one.pinned.has_value(); });
    std::for_each(left, shown.end(), [](TileState& one) { one.pinned.reset(); });
    state.tile_count = std::max(1, static_cast<int>(left - shown.begin()));
    state.active_tile = std::min(state.active_tile, state.tile_count - 1);
    return;
  }
  const auto shown = in_sight(state);
  const auto selected = std::find_if(shown.begin(), shown.end(),
                                     [](const TileState& one) { return !one.pinned.has_value(); });
  const std::optional<TileState> kept =
      selected == shown.end() ? std::nullopt : std::optional(*selected);
  state.tiles = before->tiles;
  state.tile_count = before->count;
  state.active_tile = before->active;
  if (kept) state.tiles[static_cast<std::size_t>(before->active)] = *kept;
}

void keep_pinned_alike(WorkspaceState& state) {
  if (state.tile_count != 2 || pinned_tile(state) == nullptr) return;
  const auto active = static_cast<std::size_t>(state.active_tile);
  TileState& other = state.tiles[1 - active];
  const std::optional<HeadIndex> pinned = other.pinned;
  other = state.tiles[active];
  other.pinned = pinned;
}

}  // namespace kvloupe::window
