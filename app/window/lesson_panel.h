#pragma once

namespace kvloupe::window {

class Workspace;

/// The width of the panel of the open lesson in a window of this width; 0 if none is open.
float lesson_panel_width(const Workspace& workspace, float window_width);

/// Draws into the current ImGui window: the page's title, text and task, and the buttons to other
/// pages. Folded: a narrow strip that unfolds it.
void draw_lesson_panel(Workspace& workspace);

/// The menu of lessons.
void draw_lesson_menu(Workspace& workspace);

}  // namespace kvloupe::window
