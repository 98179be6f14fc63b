#pragma once
// The fixed parts of the window around the views. Each draws into the current ImGui window.

#include "app/window/panels/policy_editor.h"
#include "app/window/state/panel_context.h"

namespace kvloupe::window {

class TokenText;

void draw_trace_panel(const PanelContext& context);

struct PolicyEditors {
  PolicyEditor a{"A"};
  PolicyEditor b{"B"};
  request::ParsedText<Budget> budget;  // of the state's text
};
void draw_policy_panel(const PanelContext& context, PolicyEditors& editors);

void draw_step_panel(const PanelContext& context, TokenText& text);
/// Its parts: one line with the steps to scrub through, which leaves `kept_right` pixels free at
/// its right end; and the tokens below.
void draw_step_line(const PanelContext& context, float kept_right);
void draw_token_lines(const PanelContext& context, TokenText& text);

}  // namespace kvloupe::window
