#include <fmt/format.h>
#include <imgui.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <string>
#include <vector>

#include "app/figure/figures/figure_catalog.h"
#include "app/session/view_catalog.h"
#include "app/window/panels/lesson_panel.h"
#include "app/window/panels/panels.h"
#include "app/window/sheets/command_palette.h"
#include "app/window/state/layouts.h"
#include "app/window/state/policy_history.h"
#include "app/window/state/recent_files.h"
#include "app/window/widgets/marks.h"

namespace kvloupe::window {

namespace {
void item(const PanelContext& c, const char* words, Command command, bool checked = false,
          bool enabled = true) {
  if (ImGui::MenuItem(words, std::string(keys_of(command)).c_str(), checked, enabled))
    c.ask(command);
}

/// The traces opened last, as lines to choose from.
void draw_recent(const PanelContext& c, const RecentFiles& recent) {
  std::string chosen;
  for (const std::string& file : recent.files()) {
    ImGui::PushID(file.c_str());
    if (ImGui::Selectable(std::filesystem::path(file).filename().string().c_str())) chosen = file;
    help_tooltip(c.fonts, file);
    ImGui::PopID();
  }
  if (!chosen.empty()) c.ask(OpenFile{chosen});
}

/// A menu for each topic, a line for each view.
void draw_views(const PanelContext& c, bool open) {
  const std::string now = c.state.tiles[static_cast<std::size_t>(c.state.active_tile)].view;
  for (const figure::Topic topic : figure::topics()) {
    if (!ImGui::BeginMenu(std::string(figure::heading(topic)).c_str(), open)) continue;
    for (const figure::FigureInfo& view : figure::figure_catalog()) {
      if (view.topic != topic) continue;
      const std::string problem = why_not(view, c.results, c.state);
      if (ImGui::MenuItem(view.title.c_str(), nullptr, now == view.name, problem.empty())) {
        c.ask(ShowView{view.name});
      }
      help_tooltip(c.fonts, problem.empty() ? view.tooltip : problem);
    }
    ImGui::EndMenu();
  }
}
/// The themes by name; T goes on to the next.
void draw_themes(const PanelContext& c) {
  constexpr std::array kTitles = {"Light", "Dark", "High contrast"};
  if (!ImGui::BeginMenu("Theme")) return;
  for (std::size_t i = 0; i < kTitles.size(); ++i) {
    const Theme theme = figure::kThemes[i];
    if (ImGui::MenuItem(kTitles[i], nullptr, c.state.theme == theme)) c.state.theme = theme;
  }
  ImGui::Separator();
  item(c, "Next theme", Command::theme);
  ImGui::EndMenu();
}
}  // namespace

void draw_menu(const PanelContext& c, const MenuContent& content) {
  WorkspaceState& s = c.state;
  const bool open = c.results.trace() != nullptr;
  ImGui::PushStyleVar(ImGuiStyleVar_WindowPadding, {c.px(8), c.px(8)});
  if (!ImGui::BeginMainMenuBar()) {
    ImGui::PopStyleVar();
    return;
  }
  if (ImGui::BeginMenu("File")) {
    item(c, "Open trace…", Command::open);
    if (ImGui::BeginMenu("Open recent", !content.recent.files().empty())) {
      draw_recent(c, content.recent);
      ImGui::EndMenu();
    }
    item(c, "New capture…", Command::new_capture);
    item(c, "Open the demo", Command::demo);
    item(c, "Run policy A in the model…", Command::closed_loop, false, open);
    ImGui::Separator();
    item(c, "Open session…", Command::open_session);
    item(c, "Save session…", Command::save_session);
    ImGui::Separator();
    item(c, "Export view…", Command::export_view, false, open);
    ImGui::Separator();
    item(c, "Quit", Command::quit);
    ImGui::EndMenu();
  }
  if (ImGui::BeginMenu("Edit")) {
    item(c, "Undo change of policy", Command::undo, false, content.history.can_undo());
    item(c, "Redo", Command::redo, false, content.history.can_redo());
    ImGui::Separator();
    item(c, "Copy finding", Command::copy_finding, false, open);
    ImGui::EndMenu();
  }
  if (ImGui::BeginMenu("View")) {
    item(c, "Choose view…", Command::choose_view, false, open);
    draw_views(c, open);
    ImGui::Separator();
    if (ImGui::BeginMenu("Layout", open)) {
      for (const Layout& layout : layouts()) {
        item(c, std::string(layout.name).c_str(), layout.command);
        help_tooltip(c.fonts, std::string(layout.words));
      }
      ImGui::EndMenu();
    }
    item(c, "One view", Command::tiles_1, s.tile_count == 1);
    item(c, "Two views", Command::tiles_2, s.tile_count == 2);
    item(c, "Three views", Command::tiles_3, s.tile_count == 3);
    item(c, "Four views", Command::tiles_4, s.tile_count == 4);
    item(c, "A beside B", Command::tiles_ab, false, open);
    ImGui::Separator();
    item(c, "Present", Command::present, false, open || c.results.evaluation());
    ImGui::Separator();
    item(c, "Left panel", Command::left_panel, s.left_panel);
    item(c, "Bottom panel", Command::bottom_panel, s.bottom_panel);
    item(c, "Right panel", Command::right_panel, s.right_panel);
    ImGui::Separator();
    draw_themes(c);
    item(c, "Patterns beside colours", Command::patterns, shows_patterns(s));
    help_tooltip(c.fonts, "Lines and dots where colours show what is evicted, merged or protected");
    item(c, "Reduced motion", Command::reduced_motion, c.reduced_motion);
    help_tooltip(c.fonts, "Nothing moves by itself: Space goes one step on");
    item(c, ("Colours: " + std::string(amount_map_name(s.amounts))).c_str(), Command::colour_map);
    item(c, "Larger", Command::scale_up);
    item(c, "Smaller", Command::scale_down);
    item(c, "Normal size", Command::scale_reset);
    ImGui::EndMenu();
  }
  draw_lesson_menu(c, content.lessons, content.lesson_folded);
  if (ImGui::BeginMenu("Help")) {
    item(c, "Find anything…", Command::palette);
    item(c, "Keys and mouse", Command::help);
    ImGui::EndMenu();
  }
  if ((content.computing && open) || content.captured) {
    const std::string text =
        content.captured ? fmt::format("capturing {:.0f} %", 100 * *content.captured) : "computing";
    ImGui::PushFont(c.fonts.secondary);
    const float x = ImGui::GetWindowWidth() - ImGui::CalcTextSize(text.c_str()).x - c.px(16);
    computing_dot(c.fonts, {x - c.px(12), ImGui::GetFrameHeight() / 2}, c.colours());
    ImGui::SetCursorPosX(x);
    ImGui::SetCursorPosY((ImGui::GetFrameHeight() - c.fonts.secondary->FontSize) / 2);
    ImGui::TextDisabled("%s", text.c_str());
    ImGui::PopFont();
  }
  ImGui::EndMainMenuBar();
  ImGui::PopStyleVar();
}

void draw_help_sheet(const PanelContext& c, bool& open) {
  const ImVec2 screen = ImGui::GetIO().DisplaySize;
  const ImVec2 size{std::min(c.px(960), screen.x - 32), std::min(c.px(720), screen.y - 64)};
  ImGui::SetNextWindowPos({(screen.x - size.x) / 2, (screen.y - size.y) / 3});
  ImGui::SetNextWindowSize(size);
  ImGui::PushStyleVar(ImGuiStyleVar_WindowPadding, {c.px(24), c.px(16)});
  ImGui::PushStyleVar(ImGuiStyleVar_WindowBorderSize, 1.0F);
  ImGui::SetNextWindowFocus();
  ImGui::Begin("##help", nullptr, ImGuiWindowFlags_NoDecoration | ImGuiWindowFlags_NoMove);
  ImGui::PopStyleVar(2);
  ImGui::PushFont(c.fonts.heading);
  ImGui::TextUnformatted("Keys and mouse");
  ImGui::PopFont();
  ImGui::SameLine(ImGui::GetContentRegionMax().x - c.px(64));
  if (ImGui::Button("Close", {c.px(64), 0})) open = false;
  ImGui::BeginChild("##keys");
  const int columns = size.x > c.px(640) ? 2 : 1;
  if (ImGui::BeginTable("##columns", columns)) {
    ImGui::TableNextRow();
    ImGui::TableNextColumn();
    std::string_view group;
    int rows = 0;
    const auto heading = [&](std::string_view title) {
      if (columns == 2 && rows > 24) {
        ImGui::TableNextColumn();
        rows = -100;
      } else if (rows != 0) {
        ImGui::Dummy({0, c.px(4)});
      }
      ImGui::PushFont(c.fonts.heading);
      ImGui::TextUnformatted(std::string(title).c_str());
      ImGui::PopFont();
      ++rows;
    };
    const auto line = [&](std::string_view keys, std::string_view words) {
      const float left = ImGui::GetCursorPosX();
      ImGui::PushStyleVar(ImGuiStyleVar_ItemSpacing, {c.px(8), c.px(2)});
      ImGui::TextColored(ImGui::ColorConvertU32ToFloat4(c.colours().retained), "%s",
                         std::string(keys).c_str());
      ImGui::SameLine();
      ImGui::SetCursorPosX(left + c.px(112));
      ImGui::PushTextWrapPos(0.0F);  // at the column's edge
      ImGui::TextUnformatted(std::string(words).c_str());
      ImGui::PopTextWrapPos();
      ImGui::PopStyleVar();
      ++rows;
    };
    heading("Mouse");
    for (const MouseGesture& each : mouse_gestures()) line(each.gesture, each.words);
    for (const KeyBinding& binding : key_bindings()) {
      if (binding.words.empty()) continue;
      if (binding.group != group) heading(group = binding.group);
      line(binding.keys, binding.words);
    }
    ImGui::EndTable();
  }
  ImGui::EndChild();
  ImGui::End();
}

}  // namespace kvloupe::window
