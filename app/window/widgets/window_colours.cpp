#include "app/window/widgets/window_colours.h"

#include <array>

#include "app/scene/style.h"

namespace kvloupe::window {

namespace {
constexpr ImU32 rgb(unsigned hex, unsigned alpha = 255) {
  return IM_COL32((hex >> 16) & 255, (hex >> 8) & 255, hex & 255, alpha);
}

ImU32 screen_colour(const figure::Colour& c) { return IM_COL32(c.red, c.green, c.blue, c.alpha); }

/// The window uses the figures' colours and adds those of its own surfaces.
WindowColours made_colours(Theme theme) {
  const figure::Palette of_figures = figure::palette(theme);
  const bool light = theme == Theme::light;
  WindowColours made{.paper = screen_colour(of_figures.paper),
                     .ink = screen_colour(of_figures.ink),
                     .secondary = screen_colour(of_figures.faint),
                     .faint = light ? rgb(0xDCDDD9) : rgb(0x2D3239),
                     .panel = light ? rgb(0xF6F6F3) : rgb(0x1A1E23),
                     .control = light ? rgb(0xE9EAE6) : rgb(0x272C33),
                     .control_active = light ? rgb(0xDADCD8) : rgb(0x343B44),
                     .retained = screen_colour(of_figures.retained),
                     .evicted = screen_colour(of_figures.evicted),
                     .protection = screen_colour(of_figures.protected_),
                     .merged = screen_colour(of_figures.merged),
                     .synthetic = screen_colour(of_figures.pivot),
                     .selection = screen_colour(of_figures.selection),
                     .error = light ? rgb(0xB04A00) : rgb(0xF59457),
                     .unavailable = faded(screen_colour(of_figures.faint), 0.7F)};
  if (theme == Theme::high_contrast) {
    made.faint = rgb(0x8C8C8C);
    made.panel = rgb(0x0A0A0A);
    made.control = rgb(0x1C1C1C);
    made.control_active = rgb(0x262626);
    made.error = rgb(0xFFB27A);
    made.unavailable = made.secondary;
  }
  return made;
}
}  // namespace

const WindowColours& window_colours(Theme theme) {
  static const std::array kMade = {made_colours(Theme::light), made_colours(Theme::dark),
                                   made_colours(Theme::high_contrast)};
  return kMade[static_cast<std::size_t>(theme)];
}

ImU32 faded(ImU32 colour, float alpha) {
  const auto a = static_cast<ImU32>(static_cast<float>(colour >> IM_COL32_A_SHIFT) * alpha);
  return (colour & ~IM_COL32_A_MASK) | (a << IM_COL32_A_SHIFT);
}

void apply_theme(Theme theme, float scale) {
  const WindowColours& p = window_colours(theme);
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
  if (theme == Theme::high_contrast) {
    // Usable controls have an outline; the text of disabled ones stays readable.
    style.WindowBorderSize = style.FrameBorderSize = 1;
    style.DisabledAlpha = 0.75F;
  }
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
  set(ImGuiCol_ButtonActive, theme == Theme::high_contrast ? p.control : p.faint);
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
