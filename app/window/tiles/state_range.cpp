#include "app/window/tiles/state_range.h"

#include <algorithm>
#include <cmath>

#include "analysis/base/core/error.h"
#include "analysis/replay/replay.h"
#include "analysis/trace/segments.h"
#include "app/figure/figures/figure_catalog.h"

namespace kvloupe::window {

Budget budget_of(int entries, int prompt_length, bool as_share) {
  if (!as_share) return Budget{static_cast<long>(entries)};
  return share_budget(100.0 * entries / std::max(1, prompt_length));
}

Budget share_budget(double percent) {
  const double scale = std::pow(10.0, 3.0 - std::floor(std::log10(percent)));
  return Budget{Percent{std::round(percent * scale) / scale}};
}

bool accepts_compression(const Trace& trace, std::optional<Compression> compression) {
  try {
    compression_end(trace.tokens(), trace.run(), replay_compression(trace, compression));
    return true;
  } catch (const UsageError&) {
    return false;
  }
}

void keep_in_range(figure::Selection& at, const Trace& trace, int steps) {
  at.layer = figure::nearest_layer(trace, at.layer);
  const ModelInfo& model = trace.layer_model(at.layer);
  at.head = std::clamp(at.head, 0, model.num_kv_heads - 1);
  if (at.query_head >= 0 &&
      (at.query_head >= model.num_heads || model.head_of(at.query_head) != at.head)) {
    at.query_head = -1;
  }
  const int length = trace.length();
  at.token = std::min(at.token, length - 1);
  at.first_token = std::clamp(at.first_token, 0, length - 1);
  if (at.last_token >= 0) at.last_token = std::clamp(at.last_token, at.first_token, length - 1);
  if (at.step >= steps) at.step = steps - 1;
}

void keep_in_range(WorkspaceState& state, const Results& results) {
  const TracePointer open = results.trace();
  if (!open) return;
  const Trace& trace = *open;
  for (TileState& tile : state.tiles) {
    if (!tile.pinned) continue;
    tile.pinned->layer = figure::nearest_layer(trace, tile.pinned->layer);
    tile.pinned->head =
        std::clamp(tile.pinned->head, 0, trace.layer_model(tile.pinned->layer).num_kv_heads - 1);
  }
  state.block = std::clamp(state.block, 0, trace.run().prompt_length);
  if (!accepts_compression(trace, state.compression)) state.compression.reset();
  keep_in_range(state.selection, trace, static_cast<int>(results.blocks(state).size()));
}

void show_view(WorkspaceState& state, const std::string& name) {
  TileState& tile = active_tile(state);
  if (tile.view == name) return;
  tile = TileState{.view = name, .side = tile.side, .pinned = tile.pinned};
}

}  // namespace kvloupe::window
