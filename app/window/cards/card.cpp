#include "app/window/cards/card.h"

#include <fmt/format.h>

#include <algorithm>

#include "app/window/state/panel_context.h"
#include "app/window/widgets/marks.h"
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
  ImGui::PushFont(c.fonts.secondary);
  const float close = ImGui::CalcTextSize("Close").x + 2 * ImGui::GetStyle().FramePadding.x;
  ImGui::PopFont();
  ImGui::PushFont(c.fonts.heading);
  text_before(c, heading, figure::Font::bold, 15.0, inner - close - c.px(8));
  ImGui::PopFont();
  ImGui::PushFont(c.fonts.secondary);
  ImGui::SameLine(c.px(12) + inner - close);
  return ImGui::SmallButton("Close");
}

void text_before(const PanelContext& c, const std::string& text, figure::Font font, double size,
                 float width) {
  const std::string shown = c.metrics.fit(text, font, size, std::max(0.0F, width) / c.fonts.scale());
  show_text(c.fonts, shown);
  if (shown != text) help_tooltip(c.fonts, text);
}

void end_card() {
  ImGui::PopFont();
  // It grows with what becomes known: its buttons stay on the screen.
  const ImVec2 at = ImGui::GetWindowPos();
  const float bottom = ImGui::GetIO().DisplaySize.y - ImGui::GetWindowSize().y;
  if (at.y > bottom && at.y > 0.0F) ImGui::SetWindowPos({at.x, std::max(0.0F, bottom)});
  ImGui::End();
}

}  // namespace kvloupe::window
