#pragma once
// Everything a key can do, in one list: the keys, the menu and the help sheet read it.

#include <span>
#include <string_view>

namespace kvloupe::window {

enum class Command {
  none,  // of no key
  open,
  save_session,
  copy_finding,
  open_session,
  export_view,
  new_capture,
  demo,
  lessons,
  lesson_next,
  lesson_back,
  lesson_view,
  lesson_panel,
  lesson_close,
  closed_loop,
  quit,
  help,
  palette,
  cancel,
  layer_up,
  layer_down,
  head_left,
  head_right,
  step_back,
  step_forward,
  step_first,
  step_last,
  play,
  token_back,
  token_forward,
  token_none,
  whole_range,
  tiles_1,
  tiles_2,
  tiles_3,
  tiles_4,
  tiles_ab,
  next_tile,
  previous_tile,
  choose_view,
  next_view,
  previous_view,
  reset_view,
  zoom_in,
  zoom_out,
  pan_left,
  pan_right,
  layout_explore,
  layout_compare,
  layout_merge,
  layout_sinks,
  layout_figure,
  theme,  // the next one
  colour_map,
  scale_up,
  scale_down,
  scale_reset,
  left_panel,
  right_panel,
  bottom_panel,
  next_panel,
  present,
  policy_b,
  budget_down,
  budget_up,
  edit_spec,
  undo,
  redo,
  patterns,
  reduced_motion,
};

struct KeyBinding {
  Command command;
  std::string_view keys;   // as shown to a person
  std::string_view words;  // what it does
  std::string_view group;  // heading in the help sheet
  int key = 0;             // GLFW code; 0: the character decides
  char character = 0;      // as the keyboard's layout types it; 0: the key decides
  bool control = false;
  bool shift = false;
  bool repeats = false;  // while held
};

/// What the mouse does, for the help sheet.
struct MouseGesture {
  std::string_view gesture;
  std::string_view words;
};
std::span<const MouseGesture> mouse_gestures();

/// Every key, in the order of the help sheet.
std::span<const KeyBinding> key_bindings();
/// The keys of a command as shown to a person; empty if it has none.
std::string_view keys_of(Command command);

}  // namespace kvloupe::window
