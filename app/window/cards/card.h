#pragma once

#include <imgui.h>

#include <string>

#include "app/scene/scene.h"

namespace kvloupe::window {

struct PanelContext;

/// Begins a card: a small window with a heading and "Close", which appears beside a place in
/// pixels, inside the screen; `height` is about its height. A person may drag it away. Sizes are in
/// units of the window's scale. True where "Close" was pressed. End it with end_card(); in between
/// the secondary font is on.
bool begin_card(const PanelContext& context, const std::string& id, ImVec2 at, float width,
                float height, const std::string& heading);
void end_card();

/// Text of this font and size, cut to a width in pixels, so that a button behind it stays free;
/// whole in a tooltip.
void text_before(const PanelContext& context, const std::string& text, figure::Font font,
                 double size, float width);

}  // namespace kvloupe::window
