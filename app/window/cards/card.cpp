#include "app/window/cards/card.h"

#include <fmt/format.h>

#include <algorithm>

#include "app/window/state/panel_context.h"
#include "app/window/widgets/shaped_text.h"

namespace kvloupe::window {

bool begin_card(const PanelContext& c, const std::string& id, ImVec2 at, float width, float height,
                const std::string& heading) {
  const ImVec2 screen = ImGui::GetIO().DisplaySize;
  const ImVec2 size{c.px(width), c.px(height)};
  const float gap = c.px(16);
  ImVec2 corner{at.x + gap, at.y + gap};
  if (corner.x + size.x > screen.x) corner.x = std::max(0.0F, at.x - gap - size.x);
  if (corner.y + size.y > screen.y) corner.y = std::max(0.0F, at.y - gap - size.y);
  ImGui::SetNextWindowPos(corner, ImGuiCond_Appearing);
  ImGui::SetNextWindowSize({size.x, 0});
  ImGui::PushStyleVar(ImGuiStyleVar_WindowBorderSize, 1.0F);
  ImGui::PushStyleVar(ImGuiStyleVar_WindowPadding, {c.px(12), c.px(12)});
  ImGui::PushStyleColor(ImGuiCol_WindowBg, c.colours().panel);
  ImGui::Begin(fmt::format("##{}{},{}", id, at.x, at.y).c_str(), nullptr,
               ImGuiWindowFlags_NoTitleBar | ImGuiWindowFlags_NoResize |
                   ImGuiWindowFlags_NoSavedSettings | ImGuiWindowFlags_NoScrollbar |
                   ImGuiWindowFlags_NoNavInputs | ImGuiWindowFlags_NoFocusOnAppearing);
  ImGui::PopStyleColor();
  ImGui::PopStyleVar(2);
  const float inner = ImGui::GetContentRegionAvail().x;
  ImGui::PushFont(c.fonts.heading);
  show_text(c.fonts, heading);
  ImGui::PopFont();
  ImGui::PushFont(c.fonts.secondary);
  ImGui::SameLine(c.px(12) + inner - ImGui::CalcTextSize("Close").x -
                  2 * ImGui::GetStyle().FramePadding.x);
  return ImGui::SmallButton("Close");
}

void end_card() {
  ImGui::PopFont();
  ImGui::End();
}

}  // namespace kvloupe::window
