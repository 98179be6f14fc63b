#include <fmt/format.h>
#include <imgui.h>
#include <imgui_stdlib.h>

#include <algorithm>

#include "analysis/trace/layer_kinds_text.h"
#include "analysis/trace/shared_weights.h"
#include "app/figure/figures/figure_catalog.h"
#include "app/figure/figures/overview_measures.h"
#include "app/job/capture_job.h"
#include "app/session/view_catalog.h"
#include "app/window/panels/panels.h"
#include "app/window/state/panel_context.h"
#include "app/window/tiles/tile.h"
#include "app/window/widgets/key_input.h"
#include "app/window/widgets/marks.h"
#include "app/window/widgets/numbers.h"

namespace kvloupe::window {

namespace {

constexpr double kSecondarySize = 13.0;  // of text, at the scale 1

void row(const PanelContext& c, const char* name, const std::string& value,
         const std::string& help = {}) {
  ImGui::TableNextRow();
  ImGui::TableNextColumn();
  ImGui::TextDisabled("%s", name);
  ImGui::TableNextColumn();
  const float width = ImGui::GetContentRegionAvail().x;
  const std::string shown =
      c.metrics.fit(value, figure::Font::regular, kSecondarySize, width / c.fonts.scale());
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
    const std::string kinds = layer_kinds_text(trace);
    row(c, "layers",
        model.caches() == model.num_layers
            ? count_text(model.num_layers)
            : fmt::format("{}, {} with a cache", count_text(model.num_layers),
                          count_text(model.caches())),
        kinds);
    if (kinds.empty()) {
      row(c, "heads",
          fmt::format(
              "{}{}", model.num_kv_heads,
              model.group_size() > 1 ? fmt::format(", groups of {}", model.group_size()) : ""),
          fmt::format("{} key-value heads per layer serve {} query heads; head dimension {}",
                      model.num_kv_heads, model.num_heads, model.head_dim));
    } else {
      row(c, "heads", count_text(model.all_cache_heads()) + " in all",
          "Heads of the layers that have a cache: " + layer_shapes_text(trace));
    }
    row(c, "tokens", count_text(run.prompt_length) + count_after_prompt(run, c.results.given()));
    row(c, "block", count_text(run.block_size), "Prompt tokens that are run at once, B");
    if (!trace.narrowest_reach().all()) {
      row(c, "reach", window_text(trace),
          "Tokens that a query sees, including its own. Tokens beyond them leave the cache; "
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
  name_control(c.fonts, "tokens", c.px(96));
  ImGui::InputTextWithHint("##followed", "auto, needle, 120-131", &c.state.followed);
  help_tooltip(c.fonts, !error.empty()
                            ? error
                            : "The tokens that are followed: such as 120-131,140, or the name of a "
                              "segment of the prompt. auto: the segment needle, else token 0");
}

/// The choice of the measure that the grid shows for every head.
void draw_measure_choice(const PanelContext& c) {
  using figure::OverviewMeasure;
  const OverviewMeasure& now = *figure::find_overview_measure(c.state.grid_measure);
  name_control(c.fonts, "grid shows", c.px(96));
  // Looks like a list that opens; the list is searched by typing.
  const float width = ImGui::GetContentRegionAvail().x;
  const float arrow = c.px(20);
  const double room = (width - 2 * ImGui::GetStyle().FramePadding.x - arrow) / c.fonts.scale();
  const std::string title =
      c.metrics.fit(now.title(), figure::Font::regular, kSecondarySize, std::max(0.0, room));
  ImGui::PushStyleVar(ImGuiStyleVar_ButtonTextAlign, {0.0F, 0.5F});
  const bool open = ImGui::Button((title + "###metric").c_str(), {width, 0});
  ImGui::PopStyleVar();
  const ImVec2 low = ImGui::GetItemRectMin(), high = ImGui::GetItemRectMax();
  small_arrow({high.x - arrow / 2, (low.y + high.y) / 2}, c.fonts.scale(), c.colours().secondary);
  help_tooltip(c.fonts, now.title() + "\n" + now.help);
  if (open) c.ask(ChooseMeasure{{low.x, high.y + c.px(4)}});
}

/// How the grid's values become colours; at the right of the head's name, where no row is lost.
void draw_scale_choice(const PanelContext& c) {
  const figure::FigureInfo& overview = figure::find_figure("overview");
  const auto choice = std::find_if(overview.choices.begin(), overview.choices.end(),
                                   [](const auto& one) { return one.name == "scale"; });
  const float around = ImGui::GetFrameHeight() + 2 * ImGui::GetStyle().FramePadding.x;
  const float width = ImGui::CalcTextSize("scale: relative").x + around;
  ImGui::SameLine();
  const float right = ImGui::GetContentRegionMax().x;
  const float left = std::max(ImGui::GetCursorPosX(), right - width);
  ImGui::SetCursorPosX(left);
  ImGui::SetNextItemWidth(right - left);
  const std::string named = "scale: " + c.state.grid_scale;
  const bool fits = ImGui::CalcTextSize(named.c_str()).x + around <= right - left;
  choose_word(
      "##scale", c.state.grid_scale, [&] { return choice->values; },
      (fits ? named : c.state.grid_scale).c_str());
  help_tooltip(c.fonts, choice->tooltip);
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
  name_control(c.fonts, "query head", c.px(96));
  const std::string now = at.query_head < 0 ? "group mean" : std::to_string(at.query_head);
  if (ImGui::BeginCombo("##query", now.c_str())) {
    if (list_line("group mean", at.query_head < 0)) at.query_head = -1;
    for (int q = at.head * group; q < (at.head + 1) * group; ++q) {
      if (list_line(std::to_string(q).c_str(), q == at.query_head)) at.query_head = q;
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
  ImGui::AlignTextToFramePadding();
  ImGui::Text("Layer %d, head %d", c.state.selection.layer, c.state.selection.head);
  ImGui::PopFont();
  ImGui::PushFont(c.fonts.secondary);
  draw_scale_choice(c);
  if (const int reads = trace->layer_model(c.state.selection.layer).shares_with; reads >= 0) {
    ImGui::TextDisabled("reads the cache of layer %d", reads);
    help_tooltip(c.fonts,
                 fmt::format("Layer {} has queries of its own; layer {} decides what stays",
                             c.state.selection.layer, reads));
  }
  ImGui::PopFont();
  draw_query_head(c, trace->layer_model(c.state.selection.layer));
  ImGui::PushFont(c.fonts.secondary);
  draw_measure_choice(c);
  draw_followed(c, grid.error());
  ImGui::PopFont();
  draw_grid(c, grid);
}

}  // namespace kvloupe::window
