#pragma once
// Small things drawn over pictures: marks of the selection, labels, the computing dot, tooltips.

#include <imgui.h>

#include <string>

#include "app/scene/scene.h"
#include "app/window/widgets/fonts.h"
#include "app/window/widgets/window_colours.h"

namespace kvloupe::window {

/// The place of a scene on the screen: its origin in pixels, pixels per point, and the UI's scale.
struct MarkPlace {
  const figure::Scene& scene;
  ImVec2 origin;
  float scale;
  float ui_scale;
};

/// Marks a target in the scene: a ring around points, an outline around cells, a line if a cell is
/// too thin for an outline.
void draw_mark(const MarkPlace& place, const figure::Target& target, ImU32 colour, float strength);
/// A 2 px outline.
void outline(const MarkPlace& place, const figure::Rect& rect, ImU32 colour);

/// Runs along a curve, within its plot.
void along(const MarkPlace& place, const figure::PickLine& line, ImU32 colour);

/// Two triangles at the sides of a plot that point at a row.
void side_marks(const MarkPlace& place, const figure::Rect& plot, double y, ImU32 colour);
/// A small triangle that shows that a click opens a list.
void small_arrow(ImVec2 centre, float ui_scale, ImU32 colour);

/// A line of text on paper beside `at`, kept left of and below `corner`.
void label(const Fonts& fonts, ImDrawList& list, ImVec2 at, const std::string& text,
           const WindowColours& colours, ImVec2 corner);

/// Text that reads downwards, its line centred on `top` and beginning there.
void upright_label(const Fonts& fonts, ImDrawList& list, ImVec2 top, const char* text,
                   ImU32 colour);

/// A small, still dot: something newer is being computed.
void computing_dot(const Fonts& fonts, ImVec2 centre, const WindowColours& colours);

/// ImGui's check box and radio button with an outline, so that an empty one is visible.
bool checkbox(const char* label, bool& on, const WindowColours& colours);
bool radio_button(const char* label, bool on, const WindowColours& colours);

/// The left end of controls, right of their names: `units` from the left, but further left in a
/// narrow panel, so that the controls have room.
float control_column(const Fonts& fonts, float units);

/// A control's name, and the control to follow at `column`, as wide as is left.
void name_control(const Fonts& fonts, const char* name, float column, const std::string& help = {});

/// The text with line ends in the place of spaces, so that no line is wider, in the present font.
/// ImGui by itself also breaks a number behind its point.
std::string broken_at_spaces(const std::string& text, float width);
/// Text, wrapped; of this colour.
void wrapped_text(const std::string& text);
void wrapped_text(ImU32 colour, const std::string& text);
/// A line in another font.
void text_in(ImFont* font, const std::string& text);

/// Shows `text`, wrapped, while the pointer rests on the last item, or is on it.
void help_tooltip(const Fonts& fonts, const std::string& text, bool at_once = false);
/// Whether one comes if the pointer stays where it is: a frame is needed soon.
bool tooltip_waits();

}  // namespace kvloupe::window
