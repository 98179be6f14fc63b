#pragma once
// The fixed parts of the window around the views. Each draws into the current ImGui window.

#include <string>
#include <vector>

#include "app/window/panels/policy_editor.h"
#include "app/window/panels/token_text.h"
#include "app/window/state/panel_context.h"
#include "app/window/widgets/text_search.h"

namespace kvloupe::window {

class LessonPlayer;
class Tile;
struct TextPanel;

/// `grid`: shows the layers × heads.
void draw_trace_panel(const PanelContext& context, Tile& grid);

struct PolicyEditors {
  PolicyEditor a{"A"};
  PolicyEditor b{"B"};
};
void draw_policy_panel(const PanelContext& context, PolicyEditors& editors);

/// Whose run the numbers below the policies are of, and whether they are exact.
struct LoopBadge {
  std::string text, help;
  bool exact = false;
};
LoopBadge loop_badge(const PanelContext& context);

void draw_step_panel(const PanelContext& context, TextPanel& panel);
/// Its parts: one line with the steps to scrub through, which leaves `kept_right` pixels free at
/// its right end; and the tokens below, with the field that finds text in them.
void draw_step_line(const PanelContext& context, float kept_right);
void draw_token_lines(const PanelContext& context, TextPanel& panel);

/// The width in pixels of the panel of the open lesson in a window of this width; 0 if none is
/// open. `unit`: pixels of the window's scale.
float lesson_panel_width(const LessonPlayer& lessons, bool folded, float unit, float window_width);

/// Draws into the current ImGui window: the page's title, text and task, and the buttons to other
/// pages. Folded: a narrow strip that unfolds it.
void draw_lesson_panel(const PanelContext& context, LessonPlayer& lessons, bool folded);

/// Every lesson, as lines of a menu.
void draw_lesson_list(const PanelContext& context, LessonPlayer& lessons);

/// State of the text panel from frame to frame.
struct TextPanel {
  TokenText text;
  TextSearch search;
  std::string followed_key;   // of the trace and the words that name them
  std::vector<int> followed;  // tokens, ascending
};

}  // namespace kvloupe::window
