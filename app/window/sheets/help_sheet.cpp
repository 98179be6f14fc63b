#include "app/window/sheets/help_sheet.h"

#include <imgui.h>

#include <algorithm>
#include <string>

#include "app/window/state/panel_context.h"
#include "app/window/widgets/marks.h"

namespace kvloupe::window {

void HelpSheet::draw(const PanelContext& c) {
  if (!open_) return;
  const ImVec2 screen = ImGui::GetIO().DisplaySize;
  const ImVec2 size{std::min(c.px(960), screen.x - 32), std::min(c.px(720), screen.y - 64)};
  ImGui::SetNextWindowPos({(screen.x - size.x) / 2, (screen.y - size.y) / 3});
  ImGui::SetNextWindowSize(size);
  ImGui::PushStyleVar(ImGuiStyleVar_WindowPadding, {c.px(24), c.px(16)});
  ImGui::PushStyleVar(ImGuiStyleVar_WindowBorderSize, 1.0F);
  ImGui::SetNextWindowFocus();
  ImGui::Begin("##help", nullptr, ImGuiWindowFlags_NoDecoration | ImGuiWindowFlags_NoMove);
  ImGui::PopStyleVar(2);
  text_in(c.fonts.heading, "Keys and mouse");
  ImGui::SameLine(ImGui::GetContentRegionMax().x - c.px(64));
  if (ImGui::Button("Close", {c.px(64), 0})) close();
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
      text_in(c.fonts.heading, std::string(title));
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
    for (const CommandRow& row : commands()) {
      if (row.words.empty()) continue;
      if (row.group != group) heading(group = row.group);
      line(row.keys, row.words);
    }
    ImGui::EndTable();
  }
  ImGui::EndChild();
  ImGui::End();
}

}  // namespace kvloupe::window
