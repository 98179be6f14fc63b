#include "app/window/sheets/sheet_form.h"

#include <imgui.h>

#include <algorithm>

#include "app/window/widgets/marks.h"

namespace kvloupe::window {

void form_field(const PanelContext& c, const char* text, float button) {
  ImGui::AlignTextToFramePadding();
  ImGui::TextDisabled("%s", text);
  ImGui::SameLine(c.px(kFormNames));
  ImGui::SetNextItemWidth(button > 0.0F ? -button - ImGui::GetStyle().ItemSpacing.x : -1.0F);
}

void begin_sheet(const PanelContext& c, const char* id, const char* heading, float height,
                 bool focus) {
  const ImVec2 screen = ImGui::GetIO().DisplaySize;
  const float width = std::min(c.px(640), screen.x - 32);
  const float edge = c.px(8);
  const float top = std::max(edge, std::min(screen.y / 5, screen.y - height - edge));
  ImGui::SetNextWindowPos({(screen.x - width) / 2, top});
  ImGui::SetNextWindowSizeConstraints({width, 0}, {width, screen.y - 2 * edge});
  ImGui::SetNextWindowSize({width, 0});
  ImGui::PushStyleVar(ImGuiStyleVar_WindowBorderSize, 1.0F);
  ImGui::PushStyleVar(ImGuiStyleVar_WindowPadding, {c.px(16), c.px(16)});
  ImGui::PushStyleVar(ImGuiStyleVar_ItemSpacing, {c.px(8), c.px(8)});
  if (focus) ImGui::SetNextWindowFocus();
  ImGui::Begin(id, nullptr,
               ImGuiWindowFlags_NoTitleBar | ImGuiWindowFlags_NoResize | ImGuiWindowFlags_NoMove |
                   ImGuiWindowFlags_NoCollapse | ImGuiWindowFlags_NoSavedSettings);
  text_in(c.fonts.heading, heading);
}

float end_sheet() {
  const float height = ImGui::GetWindowHeight();
  ImGui::End();
  ImGui::PopStyleVar(3);
  return height;
}

}  // namespace kvloupe::window
