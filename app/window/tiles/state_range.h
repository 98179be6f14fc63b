#pragma once

#include <optional>
#include <string>

#include "analysis/trace/trace.h"
#include "app/session/state.h"
#include "app/window/state/results.h"

namespace kvloupe::window {

/// The ranges of a state's numbers.
struct StateRange {
  const Trace* trace = nullptr;  // the open one; nullptr: none
  int steps = 0;                 // of the replay
  int step = 0;                  // the one shown
};

/// So many entries, as a share of the prompt to four digits or as a count.
Budget budget_of(int entries, int prompt_length, bool as_share);
/// A share of the prompt above 0, in percent, to four digits.
Budget share_budget(double percent);

/// Whether the trace can be replayed with this compression: a closed-loop trace only with its own,
/// and none that stops at the question where the prompt begins with its question.
bool accepts_compression(const Trace& trace, std::optional<Compression> compression);

/// Brings a selection back into the trace and the steps of its replay.
void keep_in_range(figure::Selection& at, const Trace& trace, int steps);

/// Brings selection, block, compression and range of tokens into the range of the open trace. Call
/// once per frame: commands may step beyond it.
void keep_in_range(WorkspaceState& state, const Results& results);

/// The active tile, and its view.
inline TileState& active_tile(WorkspaceState& state) {
  return state.tiles[static_cast<std::size_t>(state.active_tile)];
}
inline const TileState& active_tile(const WorkspaceState& state) {
  return state.tiles[static_cast<std::size_t>(state.active_tile)];
}
/// Shows another view in the active tile, with default settings; one that is shown stays as it is.
void show_view(WorkspaceState& state, const std::string& name);

}  // namespace kvloupe::window
