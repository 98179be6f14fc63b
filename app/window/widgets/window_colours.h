#pragma once

#include <imgui.h>

#include "app/session/state.h"

namespace kvloupe::window {

/// The colours of the window. Each means the same thing everywhere: what figures show has their
/// colours (scene/style.h).
struct WindowColours {
  ImU32 paper, ink, secondary, faint;    // background, text, secondary text, separators
  ImU32 panel, control, control_active;  // side panels, frames of controls
  ImU32 retained, evicted, protection, merged, synthetic, selection, error;
  ImU32 unavailable;  // text of what cannot be chosen now
};

const WindowColours& window_colours(Theme theme);

/// Sets ImGui's style and colours: flat, an 8 px grid, 1 px separators, no shadows.
void apply_theme(Theme theme, float scale);

/// `colour` with its alpha multiplied.
ImU32 faded(ImU32 colour, float alpha);

}  // namespace kvloupe::window
