#include "app/window/palette.h"

namespace kvloupe::window {

namespace {
constexpr ImU32 rgb(unsigned hex, unsigned alpha = 255) {
  return IM_COL32((hex >> 16) & 255, (hex >> 8) & 255, hex & 255, alpha);
}

constexpr Palette kLight{.paper = rgb(0xFCFCFA),
                         .ink = rgb(0x1B1F24),
                         .secondary = rgb(0x5A626B),
                         .faint = rgb(0xDCDDD9),
                         .panel = rgb(0xF6F6F3),
                         .control = rgb(0xE9EAE6),
                         .control_active = rgb(0xDADCD8),
                         .retained = rgb(0x0072B2),
                         .evicted = rgb(0xD55E00),
                         .protection = rgb(0x009E73),
                         .merged = rgb(0xCC79A7),
                         .selection = rgb(0xE69F00),
                         .error = rgb(0xB04A00)};

// Blue and vermillion are a little lighter on dark paper, for contrast.
constexpr Palette kDark{.paper = rgb(0x15181C),
                        .ink = rgb(0xE6E8EA),
                        .secondary = rgb(0x9BA3AB),
                        .faint = rgb(0x2D3239),
                        .panel = rgb(0x1A1E23),
                        .control = rgb(0x272C33),
                        .control_active = rgb(0x343B44),
                        .retained = rgb(0x3F9FD8),
                        .evicted = rgb(0xF07F2E),
                        .protection = rgb(0x1FBF92),
                        .merged = rgb(0xD894BA),
                        .selection = rgb(0xE69F00),
                        .error = rgb(0xF59457)};
}  // namespace

const Palette& palette(Theme theme) { return theme == Theme::light ? kLight : kDark; }

ImU32 faded(ImU32 colour, float alpha) {
  const auto a = static_cast<ImU32>(static_cast<float>(colour >> IM_COL32_A_SHIFT) * alpha);
  return (colour & ~IM_COL32_A_MASK) | (a << IM_COL32_A_SHIFT);
}

void apply_theme(Theme theme, float scale) {
  const Palette& p = palette(theme);
  ImGuiStyle style;
  style.WindowPadding = {16, 8};
  style.FramePadding = {8, 4};
  style.ItemSpacing = {8, 4};
  style.ItemInnerSpacing = {8, 4};
  style.CellPadding = {4, 2};
  style.IndentSpacing = 16;
  style.ScrollbarSize = 10;
  style.GrabMinSize = 10;
  style.WindowBorderSize = style.ChildBorderSize = style.FrameBorderSize = 0;
  style.PopupBorderSize = 1;
  style.WindowRounding = style.ChildRounding = 0;
  style.FrameRounding = style.GrabRounding = style.PopupRounding = 3;
  style.ScrollbarRounding = 5;
  style.DisabledAlpha = 0.45F;
  // Fills with soft edges cost overdraw in a software renderer; straight edges need none.
  style.AntiAliasedLines = true;
  style.AntiAliasedFill = true;
  style.ScaleAllSizes(scale);

  const auto set = [&](ImGuiCol index, ImU32 colour) {
    style.Colors[index] = ImGui::ColorConvertU32ToFloat4(colour);
  };
  for (int i = 0; i < ImGuiCol_COUNT; ++i) set(i, p.control);
  set(ImGuiCol_Text, p.ink);
  set(ImGuiCol_TextDisabled, p.secondary);
  set(ImGuiCol_WindowBg, p.paper);
  set(ImGuiCol_ChildBg, faded(p.paper, 0));
  set(ImGuiCol_PopupBg, p.panel);
  set(ImGuiCol_Border, p.faint);
  set(ImGuiCol_BorderShadow, 0);
  set(ImGuiCol_FrameBg, p.control);
  set(ImGuiCol_FrameBgHovered, p.control_active);
  set(ImGuiCol_FrameBgActive, p.control_active);
  set(ImGuiCol_MenuBarBg, p.panel);
  set(ImGuiCol_ScrollbarBg, 0);
  set(ImGuiCol_ScrollbarGrab, p.control_active);
  set(ImGuiCol_ScrollbarGrabHovered, p.secondary);
  set(ImGuiCol_ScrollbarGrabActive, p.secondary);
  set(ImGuiCol_CheckMark, p.retained);
  set(ImGuiCol_SliderGrab, p.retained);
  set(ImGuiCol_SliderGrabActive, p.retained);
  set(ImGuiCol_Button, p.control);
  set(ImGuiCol_ButtonHovered, p.control_active);
  set(ImGuiCol_ButtonActive, p.faint);
  set(ImGuiCol_Header, p.control);
  set(ImGuiCol_HeaderHovered, p.control_active);
  set(ImGuiCol_HeaderActive, p.control_active);
  set(ImGuiCol_Separator, p.faint);
  set(ImGuiCol_TextSelectedBg, faded(p.retained, 0.3F));
  set(ImGuiCol_NavHighlight, p.selection);
  set(ImGuiCol_ModalWindowDimBg, faded(p.paper, 0.6F));
  ImGui::GetStyle() = style;
}

}  // namespace kvloupe::window
