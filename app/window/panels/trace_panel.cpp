#include <fmt/format.h>
#include <imgui.h>
#include <imgui_stdlib.h>

#include <algorithm>

#include "analysis/trace/shared_weights.h"
#include "analysis/trace/window_text.h"
#include "app/figure/figures/overview_measures.h"
#include "app/job/capture_job.h"
#include "app/session/tile_settings.h"
#include "app/window/panels/panels.h"
#include "app/window/state/panel_context.h"
#include "app/window/tiles/tile.h"
#include "app/window/widgets/marks.h"
#include "app/window/widgets/numbers.h"
#include "app/window/widgets/run_text.h"

namespace kvloupe::window {

namespace {

void row(const PanelContext& c, const char* name, const std::string& value,
         const std::string& help = {}) {
  ImGui::TableNextRow();
  ImGui::TableNextColumn();
  ImGui::TextDisabled("%s", name);
  ImGui::TableNextColumn();
  const float width = ImGui::GetContentRegionAvail().x;
  const std::string shown =
      c.metrics.fit(value, figure::Font::regular, 13.0, width / c.fonts.scale());
  ImGui::TextUnformatted(shown.c_str());
  help_tooltip(c.fonts, shown != value ? value + (help.empty() ? "" : "\n" + help) : help);
}

/// "f16", "f32": how the trace stores the keys of layer 0. Asked once for each trace.
const std::string& stored_precision(const Trace& trace) {
  static std::string of, precision;
  const std::string key = trace.path().string() + "\n" + trace.identity();
  if (of != key) {
    of = key;
    precision = keys_are_halves(trace) ? "f16" : "f32";
  }
  return precision;
}

void draw_facts(const PanelContext& c, const Trace& trace) {
  const ModelInfo& model = trace.model();
  const RunInfo& run = trace.run();
  ImGui::PushFont(c.fonts.secondary);
  ImGui::PushStyleVar(ImGuiStyleVar_CellPadding, {0, c.px(2)});
  if (ImGui::BeginTable("##facts", 2)) {
    ImGui::TableSetupColumn("name", ImGuiTableColumnFlags_WidthFixed, c.px(72));
    row(c, "model", model.name.empty() ? model.architecture : model.name);
    row(c, "layers", count_text(model.num_layers));
    row(c, "heads",
        fmt::format(
            "{}{}", model.num_kv_heads,
            model.group_size() > 1 ? fmt::format(", groups of {}", model.group_size()) : ""),
        fmt::format("{} key-value heads per layer serve {} query heads; head dimension {}",
                    model.num_kv_heads, model.num_heads, model.head_dim));
    row(c, "tokens",
        run.generated > 0 ? fmt::format("{} + {} generated", count_text(run.prompt_length),
                                        count_text(run.generated))
                          : count_text(run.prompt_length));
    row(c, "block", count_text(run.block_size), "Prompt tokens that are run at once, B");
    if (trace.narrowest_window() > 0) {
      row(c, "window", window_text(trace),
          "Tokens that a query sees, including its own. Tokens beyond the window leave the cache; "
          "this is not an eviction");
    }
    if (const std::string precision = window::precision_text(run.dtype, stored_precision(trace));
        !precision.empty()) {
      row(c, "precision", precision,
          "The model computed in the first; queries, keys and values are stored in the second");
    }
    if (const std::string missing = missing_weights(trace); !missing.empty()) {
      row(c, "weights", "missing", missing);
    } else if (uses_shared_weights(trace)) {
      row(c, "weights", "in the cache folder",
          "Output projections and output head are kept once for all traces of the model. "
          "kvloupe-capture pack makes a trace that holds them");
    }
    row(c, "run", run_text(run),
        !run.closed_loop()
            ? "Captured with the full cache; policies are replayed on its states (open loop)"
            : "Captured with a policy in the cache (closed loop)");
    ImGui::EndTable();
  }
  ImGui::PopStyleVar();
  ImGui::PopFont();
}

/// Which tokens the grid follows.
void draw_followed(const PanelContext& c, const std::string& error) {
  if (c.state.grid_measure != figure::kFollowedMeasure) return;
  ImGui::AlignTextToFramePadding();
  ImGui::TextDisabled("tokens");
  ImGui::SameLine(c.px(96));
  ImGui::SetNextItemWidth(-1);
  ImGui::InputTextWithHint("##followed", "auto, needle, 120-131", &c.state.followed);
  help_tooltip(c.fonts, !error.empty()
                            ? error
                            : "The tokens that are followed: such as 120-131,140, or the name of a "
                              "segment of the prompt. auto: the segment needle, else token 0");
}

/// What the grid shows of every head.
void draw_measure_choice(const PanelContext& c) {
  using figure::OverviewMeasure;
  const OverviewMeasure& now = *figure::find_overview_measure(c.state.grid_measure);
  ImGui::AlignTextToFramePadding();
  ImGui::TextDisabled("grid shows");
  ImGui::SameLine(c.px(96));
  ImGui::SetNextItemWidth(-1);
  if (!ImGui::BeginCombo("##metric", now.label.c_str(), ImGuiComboFlags_HeightLarge)) {
    help_tooltip(c.fonts, now.help);
    return;
  }
  for (const OverviewMeasure& one : figure::overview_measures()) {
    if (one.label.empty()) continue;
    const bool available = one.from != OverviewMeasure::From::both_policies || c.state.policy_b_on;
    const auto flags = available ? ImGuiSelectableFlags_None : ImGuiSelectableFlags_Disabled;
    if (ImGui::Selectable(one.label.c_str(), one.name == now.name, flags))
      c.state.grid_measure = one.name;
    help_tooltip(c.fonts,
                 one.help + (available ? "" : "\nSwitch policy B on to use this measure."));
  }
  ImGui::EndCombo();
}

/// Layers × heads: the figure overview, of policy A.
void draw_grid(const PanelContext& c, Tile& grid) {
  TileState tile = grid_tile(c.state);
  const ImVec2 room = ImGui::GetContentRegionAvail();
  ImGui::PushID("grid");
  grid.draw_picture(tile, {c, c.state.selection}, {room.x, std::max(room.y, c.px(120))});
  ImGui::PopID();
}

void draw_query_head(const PanelContext& c, const ModelInfo& model) {
  figure::Selection& at = c.state.selection;
  const int group = model.group_size();
  if (group <= 1) return;
  ImGui::PushFont(c.fonts.secondary);
  ImGui::AlignTextToFramePadding();
  ImGui::TextDisabled("query head");
  ImGui::SameLine(c.px(96));
  ImGui::SetNextItemWidth(-1);
  const std::string now = at.query_head < 0 ? "group mean" : std::to_string(at.query_head);
  if (ImGui::BeginCombo("##query", now.c_str())) {
    if (ImGui::Selectable("group mean", at.query_head < 0)) at.query_head = -1;
    for (int q = at.head * group; q < (at.head + 1) * group; ++q) {
      if (ImGui::Selectable(std::to_string(q).c_str(), q == at.query_head)) at.query_head = q;
    }
    ImGui::EndCombo();
  }
  ImGui::PopFont();
}

}  // namespace

void draw_trace_panel(const PanelContext& c, Tile& grid) {
  const TracePointer trace = c.results.trace();
  if (!trace) return;
  ImGui::PushFont(c.fonts.heading);
  const std::string name = trace->path().filename().string();
  ImGui::TextUnformatted(
      c.metrics
          .fit(name, figure::Font::bold, 15.0, ImGui::GetContentRegionAvail().x / c.fonts.scale())
          .c_str());
  help_tooltip(c.fonts, trace->path().string());
  ImGui::PopFont();
  draw_facts(c, *trace);
  ImGui::Dummy({0, c.px(8)});

  ImGui::PushFont(c.fonts.heading);
  ImGui::Text("Layer %d, head %d", c.state.selection.layer, c.state.selection.head);
  ImGui::PopFont();
  draw_query_head(c, trace->model());
  ImGui::PushFont(c.fonts.secondary);
  draw_measure_choice(c);
  draw_followed(c, grid.error());
  ImGui::PopFont();
  draw_grid(c, grid);
}

}  // namespace kvloupe::window
