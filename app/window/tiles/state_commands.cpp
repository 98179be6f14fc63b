#include "app/window/tiles/state_commands.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string>

#include "analysis/error.h"
#include "analysis/policy/kit/spec.h"
#include "analysis/replay/replay.h"
#include "analysis/trace/segments.h"
#include "app/window/state/layouts.h"
#include "app/window/tiles/tile.h"

namespace kvloupe::window {

namespace {

constexpr double kSizeStep = 1.1;    // of everything drawn
constexpr double kBudgetStep = 1.1;  // a tenth more
constexpr int kColourMaps = 3;

void show_tiles(WorkspaceState& state, int count) {
  state.tile_count = count;
  state.active_tile = std::min(state.active_tile, count - 1);
}

void scale_by(WorkspaceState& state, double factor) {
  state.scale = std::clamp(std::round(state.scale * factor * 20) / 20, kMinScale, kMaxScale);
}

/// By a factor, by one entry at least; in the unit in which it is written.
void change_budget(WorkspaceState& state, const StateRange& range, double factor) {
  if (range.trace == nullptr) return;
  const int prompt = range.trace->run().prompt_length;
  const int entries = state.budget.resolve(prompt);
  const int wanted =
      std::clamp(static_cast<int>(std::lround(entries * factor)), 1, std::max(1, prompt));
  const int changed =
      wanted != entries ? wanted : std::clamp(entries + (factor > 1 ? 1 : -1), 1, prompt);
  state.budget = budget_of(changed, prompt, std::holds_alternative<Percent>(state.budget.value));
}

void choose_layout(Command command, WorkspaceState& state) {
  for (const Layout& layout : layouts()) {
    if (layout.command == command) apply_layout(layout, state);
  }
}

struct StateCommand {
  Command command;
  void (*act)(WorkspaceState& state, const StateRange& range);
};

using State = WorkspaceState;
using Range = StateRange;

// One line per command. A layer, head, token or step beyond the trace is brought back by
// keep_in_range.
constexpr std::array kStateCommands = {
    StateCommand{
        Command::layer_up,
        [](State& s, const Range&) { s.selection.layer = std::max(0, s.selection.layer - 1); }},
    StateCommand{Command::layer_down, [](State& s, const Range&) { ++s.selection.layer; }},
    StateCommand{
        Command::head_left,
        [](State& s, const Range&) { s.selection.head = std::max(0, s.selection.head - 1); }},
    StateCommand{Command::head_right, [](State& s, const Range&) { ++s.selection.head; }},
    StateCommand{Command::step_back,
                 [](State& s, const Range& r) { s.selection.step = std::max(0, r.step - 1); }},
    StateCommand{Command::step_forward,
                 [](State& s, const Range& r) { s.selection.step = r.step + 1; }},
    StateCommand{Command::step_first, [](State& s, const Range&) { s.selection.step = 0; }},
    StateCommand{Command::step_last,
                 [](State& s, const Range& r) { s.selection.step = std::max(0, r.steps - 1); }},
    StateCommand{
        Command::token_back,
        [](State& s, const Range&) { s.selection.token = std::max(0, s.selection.token - 1); }},
    StateCommand{Command::token_forward, [](State& s, const Range&) { ++s.selection.token; }},
    StateCommand{Command::token_none, [](State& s, const Range&) { s.selection.token = -1; }},
    StateCommand{Command::whole_range,
                 [](State& s, const Range&) {
                   s.selection.first_token = 0;
                   s.selection.last_token = -1;
                 }},
    StateCommand{Command::tiles_1, [](State& s, const Range&) { show_tiles(s, 1); }},
    StateCommand{Command::tiles_2, [](State& s, const Range&) { show_tiles(s, 2); }},
    StateCommand{Command::tiles_3, [](State& s, const Range&) { show_tiles(s, 3); }},
    StateCommand{Command::tiles_4, [](State& s, const Range&) { show_tiles(s, 4); }},
    StateCommand{Command::tiles_ab, [](State& s, const Range&) { show_a_beside_b(s); }},
    StateCommand{Command::layout_explore,
                 [](State& s, const Range&) { choose_layout(Command::layout_explore, s); }},
    StateCommand{Command::layout_compare,
                 [](State& s, const Range&) { choose_layout(Command::layout_compare, s); }},
    StateCommand{Command::layout_merge,
                 [](State& s, const Range&) { choose_layout(Command::layout_merge, s); }},
    StateCommand{Command::layout_sinks,
                 [](State& s, const Range&) { choose_layout(Command::layout_sinks, s); }},
    StateCommand{Command::layout_figure,
                 [](State& s, const Range&) { choose_layout(Command::layout_figure, s); }},
    StateCommand{Command::reset_view,
                 [](State& s, const Range&) {
                   Tile::reset(active_tile(s));
                   active_tile(s).limits.reset();
                 }},
    StateCommand{Command::theme,
                 [](State& s, const Range&) {
                   const auto next = static_cast<std::size_t>(s.theme) + 1;
                   s.theme = figure::kThemes[next % figure::kThemes.size()];
                 }},
    StateCommand{Command::patterns,
                 [](State& s, const Range&) { s.patterns = !shows_patterns(s); }},
    StateCommand{Command::colour_map,
                 [](State& s, const Range&) {
                   s.amounts = figure::AmountMap((static_cast<int>(s.amounts) + 1) % kColourMaps);
                 }},
    StateCommand{Command::scale_up, [](State& s, const Range&) { scale_by(s, kSizeStep); }},
    StateCommand{Command::scale_down, [](State& s, const Range&) { scale_by(s, 1 / kSizeStep); }},
    StateCommand{Command::scale_reset, [](State& s, const Range&) { s.scale = 1.0; }},
    StateCommand{Command::policy_b, [](State& s, const Range&) { s.policy_b_on = !s.policy_b_on; }},
    StateCommand{Command::budget_down,
                 [](State& s, const Range& r) { change_budget(s, r, 1 / kBudgetStep); }},
    StateCommand{Command::budget_up,
                 [](State& s, const Range& r) { change_budget(s, r, kBudgetStep); }},
};

}  // namespace

Budget budget_of(int entries, int prompt_length, bool as_share) {
  if (!as_share) return Budget{static_cast<long>(entries)};
  return parse_budget(fmt::format("{:.4g}%", 100.0 * entries / std::max(1, prompt_length)));
}

bool accepts_compression(const Trace& trace, std::optional<Compression> compression) {
  try {
    compression_end(trace.tokens(), trace.run(), replay_compression(trace, compression));
    return true;
  } catch (const UsageError&) {
    return false;
  }
}

void keep_in_range(WorkspaceState& state, const Results& results) {
  const TracePointer open = results.trace();
  if (!open) return;
  const Trace& trace = *open;
  const ModelInfo& model = trace.model();
  figure::Selection& at = state.selection;
  at.layer = std::clamp(at.layer, 0, model.num_layers - 1);
  at.head = std::clamp(at.head, 0, model.num_kv_heads - 1);
  if (at.query_head >= 0 &&
      (at.query_head >= model.num_heads || model.head_of(at.query_head) != at.head)) {
    at.query_head = -1;
  }
  const int length = trace.length();
  at.token = std::min(at.token, length - 1);
  at.first_token = std::clamp(at.first_token, 0, length - 1);
  if (at.last_token >= 0) at.last_token = std::clamp(at.last_token, at.first_token, length - 1);
  state.block = std::clamp(state.block, 0, trace.run().prompt_length);
  if (!accepts_compression(trace, state.compression)) state.compression.reset();
  const auto steps = static_cast<int>(results.blocks(state).size());
  if (at.step >= steps) at.step = steps - 1;
}

bool change_state(Command command, WorkspaceState& state, const StateRange& range) {
  for (const StateCommand& each : kStateCommands) {
    if (each.command != command) continue;
    each.act(state, range);
    return true;
  }
  return false;
}

void show_view(WorkspaceState& state, const std::string& name) {
  TileState& tile = active_tile(state);
  if (tile.view == name) return;
  tile = TileState{.view = name, .side = tile.side};
}

}  // namespace kvloupe::window
