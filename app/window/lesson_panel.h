#pragma once

namespace kvloupe::window {

class Workspace;

/// How wide the panel of the open lesson is in a window of this width; 0 where none is open.
float lesson_panel_width(const Workspace& workspace, float window_width);

/// Into the current ImGui window: the page's title, text and task, and the ways to other pages.
/// Folded: a narrow strip that unfolds it.
void draw_lesson_panel(Workspace& workspace);

/// The menu of lessons.
void draw_lesson_menu(Workspace& workspace);

}  // namespace kvloupe::window
