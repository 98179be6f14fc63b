#pragma once

namespace kvloupe::window {

class LessonPlayer;
struct PanelContext;

/// The width in pixels of the panel of the open lesson in a window of this width; 0 if none is
/// open. `unit`: pixels of the window's scale.
float lesson_panel_width(const LessonPlayer& lessons, bool folded, float unit, float window_width);

/// Draws into the current ImGui window: the page's title, text and task, and the buttons to other
/// pages. Folded: a narrow strip that unfolds it.
void draw_lesson_panel(const PanelContext& context, LessonPlayer& lessons, bool folded);

/// Every lesson, as lines of a menu.
void draw_lesson_list(const PanelContext& context, LessonPlayer& lessons);

}  // namespace kvloupe::window
