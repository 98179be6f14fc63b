#pragma once
// A trace's tokens in the window's own lines. ImGui places one glyph beside the other and knows no
// characters beyond U+FFFF; text that needs more is shaped and drawn as figures have it.

#include <imgui.h>

#include <string>

#include "app/window/widgets/fonts.h"

namespace kvloupe::window {

/// Width in pixels of a line in one of `fonts`.
float line_width(const Fonts& fonts, const ImFont* font, float size, const std::string& text);

/// Draws a line, its top left at `at`.
void draw_line(ImDrawList& list, const Fonts& fonts, const ImFont* font, float size, ImVec2 at,
               ImU32 ink, const std::string& text);

/// ImGui::TextUnformatted in the current font and colour. If a wrap position is set, lines break at
/// spaces.
void show_text(const Fonts& fonts, const std::string& text);

}  // namespace kvloupe::window
