#include "app/window/shell/presentation.h"

#include <fmt/format.h>
#include <imgui.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "app/session/view_catalog.h"
#include "app/window/panels/panels.h"
#include "app/window/tiles/tile.h"
#include "app/window/widgets/marks.h"

namespace kvloupe::window {

float presentation_scale(float usual, float chosen, float width, float height) {
  constexpr float kHigh = 480.0F, kWide = 760.0F;            // units that a figure asks for
  constexpr float kLeastHigh = 300.0F, kLeastWide = 480.0F;  // and that it keeps at any rate
  constexpr float kMost = 5.0F;                              // fonts are no larger than needed
  const float fitting = std::min(height / kHigh, width / kWide) * std::max(1.0F, chosen);
  const float most = std::min({height / kLeastHigh, width / kLeastWide, kMost});
  // Steps of a twentieth, so that dragging the window's edge does not make fonts anew all the time.
  return std::max(usual, std::floor(std::min(fitting, most) * 20.0F) / 20.0F);
}

namespace {

/// Title at the left; at the right which of how many, where there are more.
void draw_title_line(const PanelContext& c, const std::string& title, float width) {
  text_in(c.fonts.heading, title);
  if (c.state.tile_count < 2) return;
  ImGui::PushFont(c.fonts.secondary);
  const std::string place = fmt::format("{} of {}", c.state.active_tile + 1, c.state.tile_count);
  ImGui::SameLine(width - ImGui::CalcTextSize(place.c_str()).x);
  ImGui::TextDisabled("%s", place.c_str());
  ImGui::PopFont();
}

/// The caption in as many lines as leave the picture its room; where it is longer, its beginning.
std::string fitting_caption(const std::string& caption, float width, float most_height) {
  if (ImGui::CalcTextSize(caption.c_str(), nullptr, false, width).y <= most_height) return caption;
  std::string fitting;
  for (std::size_t end = caption.find(". "); end != std::string::npos;
       end = caption.find(". ", end + 1)) {
    const std::string sentences = caption.substr(0, end + 1);
    if (ImGui::CalcTextSize(sentences.c_str(), nullptr, false, width).y > most_height) break;
    fitting = sentences;
  }
  return fitting;
}

}  // namespace

void draw_presentation(const PanelContext& c, Tile& tile) {
  const ImVec2 screen = ImGui::GetIO().DisplaySize;
  const float margin = c.px(16);
  ImGui::SetNextWindowPos({0, 0});
  ImGui::SetNextWindowSize(screen);
  ImGui::PushStyleVar(ImGuiStyleVar_WindowPadding, {margin, c.px(8)});
  ImGui::Begin("##presentation", nullptr,
               ImGuiWindowFlags_NoDecoration | ImGuiWindowFlags_NoMove |
                   ImGuiWindowFlags_NoSavedSettings | ImGuiWindowFlags_NoBackground |
                   ImGuiWindowFlags_NoBringToFrontOnFocus | ImGuiWindowFlags_NoFocusOnAppearing |
                   ImGuiWindowFlags_NoNav | ImGuiWindowFlags_NoScrollWithMouse);
  ImGui::PopStyleVar();
  const int active = c.state.active_tile;
  const auto at = static_cast<std::size_t>(active);
  const figure::FigureInfo* view = find_view(c.state.tiles[at].view);
  const float width = screen.x - 2 * margin;
  draw_title_line(c, view ? view->title : std::string(), screen.x - margin);

  const bool steps = c.results.trace() != nullptr && !c.shown.blocks().empty();
  const float steps_height = steps ? ImGui::GetFrameHeight() + c.px(16) : c.px(8);
  const float top = ImGui::GetCursorPosY();
  const float room = screen.y - top - steps_height;
  std::string caption;
  float caption_height = 0.0F;
  ImGui::PushFont(c.fonts.secondary);
  if (const auto made = tile.figure(); made && tile.error().empty()) {
    caption = fitting_caption(made->figure->caption(), width, room * 0.25F);
    if (!caption.empty())
      caption_height = ImGui::CalcTextSize(caption.c_str(), nullptr, false, width).y + c.px(8);
  }
  ImGui::PopFont();

  figure::Selection selection = c.state.selection;
  ImGui::PushID(active);
  tile.draw_picture(c.state.tiles[at], {c, selection, at},
                    {width, room - caption_height - c.px(8)});
  ImGui::PopID();
  c.state.selection = selection;

  if (!caption.empty()) {
    ImGui::SetCursorPos({margin, screen.y - steps_height - caption_height});
    ImGui::PushFont(c.fonts.secondary);
    ImGui::PushTextWrapPos(margin + width);
    ImGui::TextUnformatted(caption.c_str());
    ImGui::PopTextWrapPos();
    ImGui::PopFont();
  }
  if (steps) {
    ImGui::SetCursorPos({margin, screen.y - steps_height + c.px(4)});
    draw_step_line(c, margin);
  }
  ImGui::End();
}

}  // namespace kvloupe::window
