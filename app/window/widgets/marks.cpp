#include "app/window/widgets/marks.h"

#include <imgui_internal.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "app/window/widgets/shaped_text.h"

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

void along(const MarkPlace& place, const figure::PickLine& line, ImU32 colour) {
  ImDrawList& list = *ImGui::GetWindowDrawList();
  list.PushClipRect(pixel(place, line.plot.x, line.plot.y),
                    pixel(place, line.plot.right(), line.plot.bottom()), true);
  std::vector<ImVec2> points;
  for (const figure::Point& point : line.points) points.push_back(pixel(place, point.x, point.y));
  list.AddPolyline(points.data(), static_cast<int>(points.size()), colour, 0,
                   2.0F * place.ui_scale);
  list.PopClipRect();
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

void side_marks(const MarkPlace& place, const figure::Rect& plot, double y, ImU32 colour) {
  ImDrawList& list = *ImGui::GetWindowDrawList();
  const float side = 6.0F * place.ui_scale;
  const ImVec2 left = pixel(place, plot.x, y);
  const ImVec2 right = pixel(place, plot.right(), y);
  list.AddTriangleFilled({left.x + side, left.y}, {left.x, left.y - side * 0.7F},
                         {left.x, left.y + side * 0.7F}, colour);
  list.AddTriangleFilled({right.x - side, right.y}, {right.x, right.y + side * 0.7F},
                         {right.x, right.y - side * 0.7F}, colour);
}

void small_arrow(ImVec2 centre, float ui_scale, ImU32 colour) {
  const float r = 4.0F * ui_scale;
  ImGui::GetWindowDrawList()->AddTriangleFilled({centre.x - r, centre.y - r * 0.5F},
                                                {centre.x + r, centre.y - r * 0.5F},
                                                {centre.x, centre.y + r * 0.6F}, colour);
}

void label(const Fonts& fonts, ImDrawList& list, ImVec2 at, const std::string& text,
           const WindowColours& colours, ImVec2 corner) {
  const float size = fonts.secondary->FontSize;
  const ImVec2 extent{line_width(fonts, fonts.secondary, size, text), size};
  const float gap = 8.0F * fonts.scale();
  ImVec2 low{at.x + gap, at.y - gap - extent.y};
  if (low.x + extent.x + gap > corner.x) low.x = at.x - gap - extent.x;
  low.x = std::max(low.x, list.GetClipRectMin().x + gap / 2);  // rather over the line than cut
  if (low.y < corner.y) low.y = at.y + gap;
  const float margin = 4.0F * fonts.scale();
  list.AddRectFilled({low.x - margin, low.y - margin / 2},
                     {low.x + extent.x + margin, low.y + extent.y + margin / 2},
                     faded(colours.paper, 0.92F));
  draw_line(list, fonts, fonts.secondary, size, low, colours.ink, text);
}

void upright_label(const Fonts& fonts, ImDrawList& list, ImVec2 top, const char* text,
                   ImU32 colour) {
  const ImFont* font = fonts.secondary;
  const int first = list.VtxBuffer.Size;
  // Written at the corner of the screen, where no letter is left out as out of sight.
  list.PushClipRectFullScreen();
  list.AddText(font, font->FontSize, {0, 0}, colour, text);
  list.PopClipRect();
  // A quarter turn, clockwise: x to the right becomes y downwards, whole pixels stay whole.
  const float x = std::floor(top.x + font->FontSize / 2);
  const float y = std::floor(top.y);
  for (int i = first; i < list.VtxBuffer.Size; ++i) {
    ImVec2& p = list.VtxBuffer[i].pos;
    p = {x - p.y, y + p.x};
  }
}

void computing_dot(const Fonts& fonts, ImVec2 centre, const WindowColours& colours) {
  ImGui::GetWindowDrawList()->AddCircleFilled(centre, 3.0F * fonts.scale(), colours.selection, 12);
}

namespace {
/// Outlines and paper inside, for as long as it lives.
struct OutlinedFrame {
  explicit OutlinedFrame(const WindowColours& colours) {
    ImGui::PushStyleVar(ImGuiStyleVar_FrameBorderSize, 1.0F);
    ImGui::PushStyleVar(ImGuiStyleVar_FramePadding, {ImGui::GetStyle().FramePadding.x,
                                                     ImGui::GetStyle().FramePadding.y * 0.5F});
    ImGui::PushStyleColor(ImGuiCol_Border, colours.secondary);
    ImGui::PushStyleColor(ImGuiCol_FrameBg, colours.paper);
  }
  ~OutlinedFrame() {
    ImGui::PopStyleColor(2);
    ImGui::PopStyleVar(2);
  }
  OutlinedFrame(const OutlinedFrame&) = delete;
  OutlinedFrame& operator=(const OutlinedFrame&) = delete;
};
}  // namespace

bool checkbox(const char* label, bool& on, const WindowColours& colours) {
  const OutlinedFrame frame(colours);
  return ImGui::Checkbox(label, &on);
}

bool radio_button(const char* label, bool on, const WindowColours& colours) {
  const OutlinedFrame frame(colours);
  return ImGui::RadioButton(label, on);
}

float control_column(const Fonts& fonts, float units) {
  return std::floor(std::min(units * fonts.scale(), 0.42F * ImGui::GetContentRegionMax().x));
}

void name_control(const Fonts& fonts, const char* name, float column, const std::string& help) {
  ImGui::AlignTextToFramePadding();
  ImGui::TextDisabled("%s", name);
  help_tooltip(fonts, help);
  ImGui::SameLine(column);
  ImGui::SetNextItemWidth(-1);
}

std::string broken_at_spaces(const std::string& text, float width) {
  const float space = ImGui::CalcTextSize(" ").x;
  std::string lines;
  float used = 0.0F;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find_first_of(" \n", at), text.size());
    const float word = ImGui::CalcTextSize(text.c_str() + at, text.c_str() + end).x;
    if (used > 0.0F && used + word > width && lines.back() == ' ') {
      lines.back() = '\n';
      used = 0.0F;
    }
    lines.append(text, at, end + 1 - at);
    used = end < text.size() && text[end] == '\n' ? 0.0F : used + word + space;
    at = end + 1;
  }
  return lines;
}

void wrapped_text(const std::string& text) {
  ImGui::TextWrapped("%s", broken_at_spaces(text, ImGui::GetContentRegionAvail().x).c_str());
}

void wrapped_text(ImU32 colour, const std::string& text) {
  ImGui::PushStyleColor(ImGuiCol_Text, colour);
  wrapped_text(text);
  ImGui::PopStyleColor();
}

void text_in(ImFont* font, const std::string& text) {
  ImGui::PushFont(font);
  ImGui::TextUnformatted(text.c_str());
  ImGui::PopFont();
}

namespace {

constexpr double kTooltipRest = 0.4;  // seconds: a pointer on its way elsewhere opens none

/// The control under the pointer.
struct Pointed {
  ImVec2 corner;
  double since = 0.0;
  int frame = -2;  // in which it was seen last
  bool waits = false;
} pointed;

/// Beside a list; else below a control in the upper half of its window, above one in the lower
/// half: neither its neighbours nor the buttons at a sheet's end are covered.
void place_tooltip(const std::string& lines, float width) {
  const ImVec2 low = ImGui::GetItemRectMin(), high = ImGui::GetItemRectMax();
  if (high.y - low.y > 3 * ImGui::GetFrameHeight()) return;  // a picture: at the pointer
  const ImVec2 padding = ImGui::GetStyle().WindowPadding, screen = ImGui::GetIO().DisplaySize;
  const ImVec2 text = ImGui::CalcTextSize(lines.c_str(), nullptr, false, width);
  const ImVec2 size{text.x + 2 * padding.x, text.y + 2 * padding.y};
  const float gap = padding.y / 2;
  const ImGuiWindow* const window = ImGui::GetCurrentWindow();
  const bool of_list = (window->Flags & ImGuiWindowFlags_Popup) != 0;
  const ImRect around = (of_list ? window : window->RootWindow)->Rect();
  ImVec2 at{std::max(low.x, ImGui::GetIO().MousePos.x - size.x / 2), high.y + gap};
  if (of_list) {
    const bool right = around.Max.x + gap + size.x <= screen.x;
    at = {right ? around.Max.x + gap : around.Min.x - gap - size.x, low.y};
  } else if (low.y > around.GetCenter().y || at.y + size.y > screen.y) {
    at.y = low.y - gap - size.y;
  }
  ImGui::SetNextWindowPos({std::max(gap, std::min(at.x, screen.x - size.x - gap)),
                           std::max(gap, std::min(at.y, screen.y - size.y - gap))});
}

}  // namespace

bool tooltip_waits() { return pointed.waits && pointed.frame + 1 >= ImGui::GetFrameCount(); }

void help_tooltip(const Fonts& fonts, const std::string& text, bool at_once) {
  if (text.empty() || !ImGui::IsItemHovered(ImGuiHoveredFlags_AllowWhenDisabled)) return;
  const ImVec2 corner = ImGui::GetItemRectMin();
  const int frame = ImGui::GetFrameCount();
  if (frame > pointed.frame + 1 || corner.x != pointed.corner.x || corner.y != pointed.corner.y)
    pointed = {corner, ImGui::GetTime()};
  pointed.frame = frame;
  pointed.waits = !at_once && ImGui::GetTime() - pointed.since < kTooltipRest;
  if (pointed.waits) return;
  ImGui::PushFont(fonts.secondary);
  const float width = 360.0F * fonts.scale();
  const std::string lines = broken_at_spaces(text, width);
  place_tooltip(lines, width + 1);
  ImGui::BeginTooltip();
  ImGui::PushTextWrapPos(ImGui::GetCursorPosX() + width + 1);  // a path longer than a line
  ImGui::TextUnformatted(lines.c_str());
  ImGui::PopTextWrapPos();
  ImGui::EndTooltip();
  ImGui::PopFont();
}

}  // namespace kvloupe::window
