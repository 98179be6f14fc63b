#pragma once
// The fixed parts of the window around the views. Each draws into the current ImGui window.

#include <optional>

#include "app/window/panels/policy_editor.h"
#include "app/window/state/panel_context.h"

namespace kvloupe::window {

class LessonPlayer;
class PolicyHistory;
class RecentFiles;
class Tile;
class TokenText;

/// What the menu shows beside the state.
struct MenuContent {
  const RecentFiles& recent;
  const PolicyHistory& history;
  LessonPlayer& lessons;
  bool lesson_folded = false;
  bool computing = false;
  std::optional<double> captured = std::nullopt;  // 0 to 1 while a capture runs
};
void draw_menu(const PanelContext& context, const MenuContent& content);

/// `grid`: shows the layers × heads.
void draw_trace_panel(const PanelContext& context, Tile& grid);

struct PolicyEditors {
  PolicyEditor a{"A"};
  PolicyEditor b{"B"};
};
void draw_policy_panel(const PanelContext& context, PolicyEditors& editors);

void draw_step_panel(const PanelContext& context, TokenText& text);
/// Its parts: one line with the steps to scrub through, which leaves `kept_right` pixels free at
/// its right end; and the tokens below.
void draw_step_line(const PanelContext& context, float kept_right);
void draw_token_lines(const PanelContext& context, TokenText& text);

/// Every key; closes on click or Esc.
void draw_help_sheet(const PanelContext& context, bool& open);

}  // namespace kvloupe::window
