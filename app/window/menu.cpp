#include <fmt/format.h>
#include <imgui.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "app/figure/figures/figure_catalog.h"
#include "app/session/view_catalog.h"
#include "app/window/command_palette.h"
#include "app/window/layouts.h"
#include "app/window/lesson_panel.h"
#include "app/window/marks.h"
#include "app/window/panels.h"
#include "app/window/workspace.h"

namespace kvloupe::window {

namespace {
void item(Workspace& w, const char* words, Command command, bool checked = false,
          bool enabled = true) {
  if (ImGui::MenuItem(words, std::string(keys_of(command)).c_str(), checked, enabled))
    w.perform(command);
}

/// The traces opened last, as lines to choose from.
void draw_recent(Workspace& w) {
  std::string chosen;
  for (const std::string& file : w.recent.files()) {
    ImGui::PushID(file.c_str());
    if (ImGui::Selectable(std::filesystem::path(file).filename().string().c_str())) chosen = file;
    help_tooltip(w.fonts, file);
    ImGui::PopID();
  }
  if (!chosen.empty()) w.open(chosen);  // changes the list
}

/// A menu for each topic, a line for each view.
void draw_views(Workspace& w, bool open) {
  const std::string now = w.state.tiles[static_cast<std::size_t>(w.state.active_tile)].view;
  for (const figure::Topic topic : figure::topics()) {
    if (!ImGui::BeginMenu(std::string(figure::heading(topic)).c_str(), open)) continue;
    for (const figure::FigureInfo& view : figure::figure_catalog()) {
      if (view.topic != topic) continue;
      const std::string problem = why_not(view, w);
      if (ImGui::MenuItem(view.title.c_str(), nullptr, now == view.name, problem.empty())) {
        w.show_view(view.name);
      }
      help_tooltip(w.fonts, problem.empty() ? view.tooltip : problem);
    }
    ImGui::EndMenu();
  }
}
}  // namespace

void draw_menu(Workspace& w) {
  WorkspaceState& s = w.state;
  const bool open = w.results.trace() != nullptr;
  ImGui::PushStyleVar(ImGuiStyleVar_WindowPadding, {w.px(8), w.px(8)});
  if (!ImGui::BeginMainMenuBar()) {
    ImGui::PopStyleVar();
    return;
  }
  if (ImGui::BeginMenu("File")) {
    item(w, "Open trace…", Command::open);
    if (ImGui::BeginMenu("Open recent", !w.recent.files().empty())) {
      draw_recent(w);
      ImGui::EndMenu();
    }
    item(w, "New capture…", Command::new_capture);
    item(w, "Open the demo", Command::demo);
    item(w, "Run policy A in the model…", Command::closed_loop, false, open);
    ImGui::Separator();
    item(w, "Open session…", Command::open_session);
    item(w, "Save session…", Command::save_session);
    ImGui::Separator();
    item(w, "Export view…", Command::export_view, false, open);
    ImGui::Separator();
    item(w, "Quit", Command::quit);
    ImGui::EndMenu();
  }
  if (ImGui::BeginMenu("Edit")) {
    item(w, "Undo change of policy", Command::undo, false, w.history.can_undo());
    item(w, "Redo", Command::redo, false, w.history.can_redo());
    ImGui::EndMenu();
  }
  if (ImGui::BeginMenu("View")) {
    item(w, "Choose view…", Command::choose_view, false, open);
    draw_views(w, open);
    ImGui::Separator();
    if (ImGui::BeginMenu("Layout", open)) {
      for (const Layout& layout : layouts()) {
        item(w, std::string(layout.name).c_str(), layout.command);
        help_tooltip(w.fonts, std::string(layout.words));
      }
      ImGui::EndMenu();
    }
    item(w, "One view", Command::tiles_1, s.tile_count == 1);
    item(w, "Two views", Command::tiles_2, s.tile_count == 2);
    item(w, "Three views", Command::tiles_3, s.tile_count == 3);
    item(w, "Four views", Command::tiles_4, s.tile_count == 4);
    item(w, "A beside B", Command::tiles_ab, false, open);
    ImGui::Separator();
    item(w, "Present", Command::present, false, open || w.results.evaluation());
    ImGui::Separator();
    item(w, "Left panel", Command::left_panel, s.left_panel);
    item(w, "Bottom panel", Command::bottom_panel, s.bottom_panel);
    item(w, "Right panel", Command::right_panel, s.right_panel);
    ImGui::Separator();
    item(w, "Dark theme", Command::theme, s.theme == Theme::dark);
    item(w, ("Colours: " + std::string(amount_map_name(s.amounts))).c_str(), Command::colour_map);
    item(w, "Larger", Command::scale_up);
    item(w, "Smaller", Command::scale_down);
    item(w, "Normal size", Command::scale_reset);
    ImGui::EndMenu();
  }
  draw_lesson_menu(w);
  if (ImGui::BeginMenu("Help")) {
    item(w, "Find anything…", Command::palette);
    item(w, "Keys and mouse", Command::help);
    ImGui::EndMenu();
  }
  const bool captures = w.capture_panel.running() || w.start_page.capturing();
  const double captured =
      w.capture_panel.running() ? w.capture_panel.fraction() : w.start_page.fraction();
  if ((!w.settled() && open) || captures) {
    const std::string text =
        captures ? fmt::format("capturing {:.0f} %", 100 * captured) : "computing";
    ImGui::PushFont(w.fonts.secondary);
    const float x = ImGui::GetWindowWidth() - ImGui::CalcTextSize(text.c_str()).x - w.px(16);
    computing_dot(w.fonts, {x - w.px(12), ImGui::GetFrameHeight() / 2}, w.colours());
    ImGui::SetCursorPosX(x);
    ImGui::SetCursorPosY((ImGui::GetFrameHeight() - w.fonts.secondary->FontSize) / 2);
    ImGui::TextDisabled("%s", text.c_str());
    ImGui::PopFont();
  }
  ImGui::EndMainMenuBar();
  ImGui::PopStyleVar();
}

void draw_help_sheet(Workspace& w, bool& open) {
  const ImVec2 screen = ImGui::GetIO().DisplaySize;
  const ImVec2 size{std::min(w.px(960), screen.x - 32), std::min(w.px(720), screen.y - 64)};
  ImGui::SetNextWindowPos({(screen.x - size.x) / 2, (screen.y - size.y) / 3});
  ImGui::SetNextWindowSize(size);
  ImGui::PushStyleVar(ImGuiStyleVar_WindowPadding, {w.px(24), w.px(16)});
  ImGui::PushStyleVar(ImGuiStyleVar_WindowBorderSize, 1.0F);
  ImGui::SetNextWindowFocus();
  ImGui::Begin("##help", nullptr, ImGuiWindowFlags_NoDecoration | ImGuiWindowFlags_NoMove);
  ImGui::PopStyleVar(2);
  ImGui::PushFont(w.fonts.heading);
  ImGui::TextUnformatted("Keys and mouse");
  ImGui::PopFont();
  ImGui::SameLine(ImGui::GetContentRegionMax().x - w.px(64));
  if (ImGui::Button("Close", {w.px(64), 0})) open = false;
  ImGui::BeginChild("##keys");
  const int columns = size.x > w.px(640) ? 2 : 1;
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
        ImGui::Dummy({0, w.px(4)});
      }
      ImGui::PushFont(w.fonts.heading);
      ImGui::TextUnformatted(std::string(title).c_str());
      ImGui::PopFont();
      ++rows;
    };
    const auto line = [&](std::string_view keys, std::string_view words) {
      const float left = ImGui::GetCursorPosX();
      ImGui::PushStyleVar(ImGuiStyleVar_ItemSpacing, {w.px(8), w.px(2)});
      ImGui::TextColored(ImGui::ColorConvertU32ToFloat4(w.colours().retained), "%s",
                         std::string(keys).c_str());
      ImGui::SameLine();
      ImGui::SetCursorPosX(left + w.px(112));
      ImGui::TextUnformatted(std::string(words).c_str());
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
