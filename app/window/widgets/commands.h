#pragma once
// A command is one row: its keys, its words, its place in the menus, its needs and its action.
// Keys, menus, palette and help sheet read the rows, which are in app/window/shell/commands.cpp.

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>

namespace kvloupe::window {

class Workspace;
struct StateRange;
struct WorkspaceState;

enum class Command {
  none,
  // Select
  layer_up,
  layer_down,
  head_left,
  head_right,
  head_table,
  token_back,
  token_forward,
  whole_range,
  find_text,
  find_next,
  find_previous,
  cancel,
  // Steps
  step_back,
  step_forward,
  step_first,
  step_last,
  play,
  // Policy
  budget_down,
  budget_up,
  policy_b,
  edit_spec,
  undo,
  redo,
  // Views
  tiles_1,
  tiles_2,
  tiles_3,
  tiles_4,
  tiles_ab,
  pin_head,
  choose_view,
  next_view,
  previous_view,
  next_tile,
  previous_tile,
  zoom_in,
  zoom_out,
  pan_left,
  pan_right,
  reset_view,
  stop_view,
  // Layouts
  layout_explore,
  layout_compare,
  layout_merge,
  layout_sinks,
  layout_figure,
  // Lessons
  lessons,
  lesson_next,
  lesson_back,
  lesson_view,
  lesson_panel,
  lesson_close,
  // File
  open,
  open_session,
  save_session,
  export_view,
  save_report,
  save_page,
  save_finding,
  save_head_table,
  copy_finding,
  new_capture,
  new_study,
  demo,
  closed_loop,
  cache,
  quit,
  // Window
  palette,
  jobs,
  present,
  next_panel,
  left_panel,
  bottom_panel,
  right_panel,
  theme,
  patterns,
  reduced_motion,
  colour_map,
  scale_up,
  scale_down,
  scale_reset,
  help,
  about,
};

/// A command works only when this is open. A picture belongs to a trace or an evaluation.
enum class Needs { nothing, trace, picture, lesson };

/// How a command is pressed.
struct KeyPress {
  int key = 0;         // GLFW code; 0: the character decides
  char character = 0;  // as the keyboard's layout types it; 0: the key decides
  char also = 0;       // another character that does the same
  int also_key = 0;    // another GLFW code that does the same: on the keypad
  bool control = false;
  bool shift = false;
  bool any_shift = false;  // down or not: + is Shift = on many keyboards
  bool repeats = false;    // while held
};

/// The menus of the bar in their order, and one inside another.
enum class Menu { none, file, edit, view, lessons, help, theme };

/// The place of a command in the menus.
struct MenuPlace {
  Menu menu = Menu::none;
  int section = 0;  // a line is drawn between two of them; inside, rows keep their order
  std::string_view text{};
  std::string_view tooltip{};
  bool (*ticked)(const Workspace& window) = nullptr;
  bool (*possible)(const Workspace& window) = nullptr;       // beside the row's `needs`
  std::string (*detail)(const Workspace& window) = nullptr;  // behind the text
  std::string_view why_not{};                                // where it is not `possible`
};

struct CommandRow {
  Command command = Command::none;
  std::string_view keys{};   // as shown to a person; empty: no key
  std::string_view words{};  // in the help sheet and the palette; empty: in neither
  std::string_view group{};  // heading in the help sheet
  KeyPress press{};
  Needs needs = Needs::nothing;
  using Change = void (*)(WorkspaceState& state, const StateRange& range);
  using Act = void (*)(Workspace& window);
  std::variant<Change, Act> act{};  // a change of the state and nothing else, or more than that
  MenuPlace menu{};
  std::optional<Command> presenting{};  // what the key stands for while presenting
};

/// As shell/commands.cpp lists them; the widgets alone link without this list.
extern "C" [[gnu::weak]] std::span<const CommandRow> kvloupe_list_commands();
/// Every command, in the order of the help sheet.
inline std::span<const CommandRow> commands() { return kvloupe_list_commands(); }

/// nullptr for `none`.
const CommandRow* find_command(Command command);

/// The file to open before a command with these needs can work; empty: nothing is missing.
std::string_view missing_for(Needs needs, bool trace, bool evaluation, bool lesson);

/// The keys of a command as shown to a person; empty if it has none.
std::string_view keys_of(Command command);

/// Does a command that changes the state and nothing else. False: the command does more.
bool change_state(Command command, WorkspaceState& state, const StateRange& range);

/// The actions of the mouse, for the help sheet.
struct MouseGesture {
  std::string_view gesture;
  std::string_view words;
};
std::span<const MouseGesture> mouse_gestures();

}  // namespace kvloupe::window
