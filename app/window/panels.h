#pragma once
// The fixed parts of the window around the views. Each draws into the current ImGui window.

namespace kvloupe::window {

class Workspace;

void draw_menu(Workspace& workspace);
void draw_trace_panel(Workspace& workspace);
void draw_policy_panel(Workspace& workspace);
void draw_step_panel(Workspace& workspace);
/// Its parts: one line with the steps to scrub through, which leaves `kept_right` pixels free at
/// its right end; and the tokens below.
void draw_step_line(Workspace& workspace, float kept_right);
void draw_token_lines(Workspace& workspace);
/// Every key; closes on click or Esc.
void draw_help_sheet(Workspace& workspace, bool& open);

}  // namespace kvloupe::window
