#include <fmt/format.h>
#include <imgui.h>
#include <imgui_stdlib.h>

#include <algorithm>
#include <cmath>

#include "analysis/trace/window_text.h"
#include "app/plot/frame.h"
#include "app/scene/colour_map.h"
#include "app/window/panels/panels.h"
#include "app/window/state/panel_context.h"
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
    row(c, "run", run_text(run),
        !run.closed_loop()
            ? "Captured with the full cache; policies are replayed on its states (open loop)"
            : "Captured with a policy in the cache (closed loop)");
    ImGui::EndTable();
  }
  ImGui::PopStyleVar();
  ImGui::PopFont();
}

bool shows_followed(const PanelContext& c) { return c.state.grid_metric == kFollowedMetric; }

/// What became of the followed tokens in a head, for the pointer.
std::string followed_text(const PanelContext& c, int layer, int head) {
  std::string text = fmt::format("followed: {} tokens", c.results.followed().size());
  if (const std::optional<TokenFate> fate = c.shown.followed_fate(layer, head)) {
    const double share = fate->share[static_cast<std::size_t>(c.shown.step())];
    text +=
        std::isnan(share) ? "\nnot yet seen" : fmt::format("\n{:.0f} % still there", 100.0 * share);
    if (fate->first_loss >= 0 && fate->first_loss <= c.shown.step()) {
      text += fmt::format(", lost from step {} on", fate->first_loss);
    }
  }
  const auto reads = c.results.reads();
  for (std::size_t i = 0; reads && i < reads->size(); ++i) {
    const TokenReads& one = (*reads)[i];
    if (one.layer != layer || one.head != head || std::isnan(one.read)) continue;
    text += fmt::format("\nattention that reads them: {}", three_digits(one.read));
  }
  return text;
}

/// Which tokens the grid follows.
void draw_followed(const PanelContext& c) {
  if (!shows_followed(c)) return;
  ImGui::AlignTextToFramePadding();
  ImGui::TextDisabled("tokens");
  ImGui::SameLine(c.px(96));
  ImGui::SetNextItemWidth(-1);
  ImGui::InputTextWithHint("##followed", "auto, needle, 120-131", &c.state.followed);
  help_tooltip(c.fonts, c.results.followed_error().empty()
                            ? "The tokens that are followed: such as 120-131,140, or the name of a "
                              "segment of the prompt. auto: the segment needle, else token 0"
                            : c.results.followed_error());
}

ImU32 colour_of(const figure::Colour& c) { return IM_COL32(c.red, c.green, c.blue, c.alpha); }

/// The layers × heads grid. As high as there is room.
void draw_grid(const PanelContext& c, float height) {
  const GridValues& grid = c.shown.grid();
  if (grid.layers == 0) return;
  const WindowColours& colours = c.colours();
  ImDrawList& list = *ImGui::GetWindowDrawList();
  ImGui::PushFont(c.fonts.secondary);
  const float text = c.fonts.secondary->FontSize;
  const float margin = c.px(24);  // layer numbers
  const float width = ImGui::GetContentRegionAvail().x - margin;
  const float room = height - text - c.px(8);
  const float cell_width = std::floor(std::min(width / static_cast<float>(grid.heads), c.px(40)));
  const float cell_height =
      std::clamp(std::floor(room / static_cast<float>(grid.layers)), c.px(3), c.px(32));
  const float gap = cell_height >= c.px(8) && cell_width >= c.px(8) ? 1.0F : 0.0F;
  const ImVec2 corner = ImGui::GetCursorScreenPos();
  const ImVec2 origin{corner.x + margin, corner.y + text + c.px(4)};
  const ImVec2 extent{cell_width * static_cast<float>(grid.heads),
                      cell_height * static_cast<float>(grid.layers)};

  const int label_every_head = std::max(1, static_cast<int>(std::ceil(c.px(20) / cell_width)));
  for (int h = 0; h < grid.heads; h += label_every_head) {
    const std::string label = std::to_string(h);
    const float x = origin.x + (static_cast<float>(h) + 0.5F) * cell_width -
                    ImGui::CalcTextSize(label.c_str()).x / 2;
    list.AddText({std::floor(x), corner.y}, colours.secondary, label.c_str());
  }
  const int label_every_layer =
      std::max(1, static_cast<int>(std::ceil((text + c.px(2)) / cell_height)));
  for (int l = 0; l < grid.layers; l += label_every_layer) {
    const std::string label = std::to_string(l);
    const float y = origin.y + (static_cast<float>(l) + 0.5F) * cell_height - text / 2;
    list.AddText({origin.x - c.px(8) - ImGui::CalcTextSize(label.c_str()).x, std::floor(y)},
                 colours.secondary, label.c_str());
  }
  const auto table = figure::amount_table(c.state.amounts);
  const double span = grid.most > grid.least ? grid.most - grid.least : 1.0;
  const auto corner_of = [&](int layer, int head) {
    return ImVec2{origin.x + static_cast<float>(head) * cell_width,
                  origin.y + static_cast<float>(layer) * cell_height};
  };
  for (int layer = 0; layer < grid.layers; ++layer) {
    for (int head = 0; head < grid.heads; ++head) {
      const double value = grid.values[static_cast<std::size_t>(layer * grid.heads + head)];
      const ImVec2 low = corner_of(layer, head);
      const ImVec2 high{low.x + cell_width - gap, low.y + cell_height - gap};
      const ImU32 fill = std::isfinite(value)
                             ? colour_of(table[static_cast<std::size_t>(
                                   std::lround((value - grid.least) / span * 255.0))])
                             : colours.control;
      list.AddRectFilled(low, high, fill);
    }
  }
  if (const auto reads = c.results.reads(); reads && shows_followed(c)) {
    const float largest = std::min(cell_width, cell_height) - gap;
    for (const TokenReads& head : *reads) {
      if (!(head.read >= 0.01) || head.layer >= grid.layers || head.head >= grid.heads) continue;
      const ImVec2 low = corner_of(head.layer, head.head);
      const double value =
          grid.values[static_cast<std::size_t>(head.layer * grid.heads + head.head)];
      const figure::Colour ground =
          std::isfinite(value)
              ? table[static_cast<std::size_t>(std::lround((value - grid.least) / span * 255.0))]
              : figure::Colour{};
      // Area ∝ attention.
      const auto radius = static_cast<float>(std::sqrt(std::min(head.read, 1.0))) * largest / 2;
      if (radius < 0.7F) continue;
      list.AddCircleFilled({low.x + (cell_width - gap) / 2, low.y + (cell_height - gap) / 2},
                           radius, colour_of(figure::ink_on(ground)));
    }
  }
  const figure::Selection& at = c.state.selection;
  const ImVec2 low = corner_of(at.layer, at.head);
  list.AddRect({low.x - 1.5F, low.y - 1.5F},
               {low.x + cell_width - gap + 1.5F, low.y + cell_height - gap + 1.5F},
               colours.selection, 0, 0, c.px(2));

  ImGui::SetCursorScreenPos(origin);
  ImGui::InvisibleButton("##grid", extent);
  if (ImGui::IsItemHovered()) {
    const ImVec2 mouse = ImGui::GetIO().MousePos;
    const int head =
        std::clamp(static_cast<int>((mouse.x - origin.x) / cell_width), 0, grid.heads - 1);
    const int layer =
        std::clamp(static_cast<int>((mouse.y - origin.y) / cell_height), 0, grid.layers - 1);
    const double value = grid.values[static_cast<std::size_t>(layer * grid.heads + head)];
    ImGui::SetTooltip("layer %d, head %d\n%s", layer, head,
                      shows_followed(c)
                          ? followed_text(c, layer, head).c_str()
                          : (c.state.grid_metric + " " + three_digits(value)).c_str());
    if (ImGui::IsMouseDown(0)) {
      c.state.selection.layer = layer;
      c.state.selection.head = head;
      c.state.selection.query_head = -1;
    }
  }
  ImGui::SetCursorScreenPos({corner.x, origin.y + extent.y + c.px(8)});
  ImGui::PopFont();
}

/// The colour bar under the grid, with its limits.
void draw_scale(const PanelContext& c) {
  const GridValues& grid = c.shown.grid();
  const WindowColours& colours = c.colours();
  ImGui::PushFont(c.fonts.secondary);
  const std::string least = grid.least <= grid.most ? three_digits(grid.least) : "–";
  const std::string most = three_digits(grid.most);
  const float text = c.fonts.secondary->FontSize;
  const ImVec2 corner = ImGui::GetCursorScreenPos();
  const float margin = c.px(24);
  const float left = corner.x + margin + ImGui::CalcTextSize(least.c_str()).x + c.px(8);
  const float right =
      corner.x + ImGui::GetContentRegionAvail().x - ImGui::CalcTextSize(most.c_str()).x - c.px(8);
  ImDrawList& list = *ImGui::GetWindowDrawList();
  list.AddText({corner.x + margin, corner.y}, colours.secondary, least.c_str());
  list.AddText({right + c.px(8), corner.y}, colours.secondary, most.c_str());
  const auto table = figure::amount_table(c.state.amounts);
  constexpr int kPieces = 32;
  const float top = corner.y + std::floor(text / 2 - c.px(4));
  for (int i = 0; i < kPieces; ++i) {
    const float a = left + (right - left) * static_cast<float>(i) / kPieces;
    const float b = left + (right - left) * static_cast<float>(i + 1) / kPieces;
    list.AddRectFilledMultiColor(
        {a, top}, {b, top + c.px(8)}, colour_of(table[static_cast<std::size_t>(i * 8)]),
        colour_of(table[static_cast<std::size_t>(std::min(255, i * 8 + 8))]),
        colour_of(table[static_cast<std::size_t>(std::min(255, i * 8 + 8))]),
        colour_of(table[static_cast<std::size_t>(i * 8)]));
  }
  ImGui::Dummy({ImGui::GetContentRegionAvail().x, text});
  ImGui::PopFont();
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

void draw_trace_panel(const PanelContext& c) {
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
  ImGui::AlignTextToFramePadding();
  ImGui::TextDisabled("grid shows");
  ImGui::SameLine(c.px(96));
  ImGui::SetNextItemWidth(-1);
  if (ImGui::BeginCombo("##metric", c.state.grid_metric.c_str(), ImGuiComboFlags_HeightLarge)) {
    for (const GridMetric& metric : grid_metrics()) {
      const bool available = metric.from != GridMetric::From::both_policies || c.state.policy_b_on;
      const auto flags = available ? ImGuiSelectableFlags_None : ImGuiSelectableFlags_Disabled;
      if (ImGui::Selectable(std::string(metric.name).c_str(), metric.name == c.state.grid_metric,
                            flags)) {
        c.state.grid_metric = metric.name;
      }
      help_tooltip(c.fonts, std::string(metric.tooltip) +
                                (available ? "" : "\nSwitch policy B on to use this measure."));
    }
    ImGui::EndCombo();
  } else {
    for (const GridMetric& metric : grid_metrics()) {
      if (metric.name == c.state.grid_metric) help_tooltip(c.fonts, std::string(metric.tooltip));
    }
  }
  draw_followed(c);
  ImGui::PopFont();
  const float scale_height = c.fonts.secondary->FontSize + c.px(16);
  draw_grid(c, ImGui::GetContentRegionAvail().y - scale_height - c.px(8));
  draw_scale(c);
}

}  // namespace kvloupe::window
