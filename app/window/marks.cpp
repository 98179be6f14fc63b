#include "app/window/marks.h"

#include <algorithm>
#include <cmath>

namespace kvloupe::window {

namespace {
constexpr float kThin = 5.0F;  // pixels: a thinner cell is marked by a line

ImVec2 pixel(const MarkPlace& place, double x, double y) {
  return {place.origin.x + static_cast<float>(x) * place.scale,
          place.origin.y + static_cast<float>(y) * place.scale};
}
}  // namespace

void outline(const MarkPlace& place, const figure::Rect& rect, ImU32 colour) {
  ImGui::GetWindowDrawList()->AddRect(pixel(place, rect.x, rect.y),
                                      pixel(place, rect.right(), rect.bottom()), colour, 0.0F, 0,
                                      2.0F * place.ui_scale);
}

void draw_mark(const MarkPlace& place, const figure::Target& target, ImU32 colour, float strength) {
  ImDrawList& list = *ImGui::GetWindowDrawList();
  const ImU32 ink = faded(colour, strength);
  for (const figure::Rect& rect : place.scene.where(target)) {
    const ImVec2 low = pixel(place, rect.x, rect.y);
    const ImVec2 high = pixel(place, rect.right(), rect.bottom());
    const float width = high.x - low.x;
    const float height = high.y - low.y;
    if (width <= 0.5F && height <= 0.5F) {
      list.AddCircle(low, 5.0F * place.ui_scale, ink, 0, 2.0F * place.ui_scale);
    } else if (width < kThin && height > kThin) {
      const float x = std::floor((low.x + high.x) / 2) + 0.5F;
      list.AddLine({x, low.y}, {x, high.y}, ink, std::max(1.0F, place.ui_scale));
    } else if (height < kThin && width > kThin) {
      const float y = std::floor((low.y + high.y) / 2) + 0.5F;
      list.AddLine({low.x, y}, {high.x, y}, ink, std::max(1.0F, place.ui_scale));
    } else {
      list.AddRect(low, high, ink, 0.0F, 0, 2.0F * place.ui_scale);
    }
  }
}

void label(const Fonts& fonts, ImDrawList& list, ImVec2 at, const std::string& text,
           const Palette& colours, ImVec2 corner) {
  const float size = fonts.secondary->FontSize;
  const ImVec2 extent = fonts.secondary->CalcTextSizeA(size, 1e6F, 0.0F, text.c_str());
  const float gap = 8.0F * fonts.scale();
  ImVec2 low{at.x + gap, at.y - gap - extent.y};
  if (low.x + extent.x + gap > corner.x) low.x = at.x - gap - extent.x;
  if (low.y < corner.y) low.y = at.y + gap;
  const float margin = 4.0F * fonts.scale();
  list.AddRectFilled({low.x - margin, low.y - margin / 2},
                     {low.x + extent.x + margin, low.y + extent.y + margin / 2},
                     faded(colours.paper, 0.92F));
  list.AddText(fonts.secondary, size, low, colours.ink, text.c_str());
}

void computing_dot(const Fonts& fonts, ImVec2 centre, const Palette& colours) {
  ImGui::GetWindowDrawList()->AddCircleFilled(centre, 3.0F * fonts.scale(), colours.selection, 12);
}

void help_tooltip(const Fonts& fonts, const std::string& text) {
  if (text.empty() || !ImGui::IsItemHovered(ImGuiHoveredFlags_AllowWhenDisabled)) return;
  ImGui::BeginTooltip();
  ImGui::PushFont(fonts.secondary);
  ImGui::PushTextWrapPos(360.0F * fonts.scale());
  ImGui::TextUnformatted(text.c_str());
  ImGui::PopTextWrapPos();
  ImGui::PopFont();
  ImGui::EndTooltip();
}

}  // namespace kvloupe::window
