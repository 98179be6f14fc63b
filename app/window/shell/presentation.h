#pragma once
// One view alone, its caption and the steps, large enough for the back of a room.

namespace kvloupe::window {

class Tile;
struct PanelContext;

/// The scale of fonts and figures on a screen of this size: as large as the screen has room for a
/// figure, multiplied by the scale that the person has chosen, never smaller than `usual`.
float presentation_scale(float usual, float chosen, float width, float height);

/// Fills the screen with the active tile.
void draw_presentation(const PanelContext& context, Tile& tile);

}  // namespace kvloupe::window
