#pragma once
// One view alone, its caption and the steps, large enough for the back of a room.

#include "app/window/commands.h"

namespace kvloupe::window {

class Workspace;

/// The scale of fonts and figures on a screen of so many pixels: about as large as the screen has
/// room for a figure, larger by the scale the person has chosen, never smaller than `usual`.
float presentation_scale(float usual, float chosen, float width, float height);

/// What a key does while presenting: arrows and the pages of a presenter's remote control go
/// through steps and views. Commands that would change nothing in sight come back as Command::none.
Command while_presenting(Command command);

/// Fills the screen.
void draw_presentation(Workspace& workspace);

}  // namespace kvloupe::window
