#include "app/window/widgets/commands.h"

#include <algorithm>
#include <array>

namespace kvloupe::window {

const CommandRow* find_command(Command command) {
  const auto rows = commands();
  const auto found = std::find_if(rows.begin(), rows.end(),
                                  [&](const CommandRow& row) { return row.command == command; });
  return found == rows.end() ? nullptr : &*found;
}

std::string_view keys_of(Command command) {
  const CommandRow* row = find_command(command);
  return row == nullptr ? std::string_view{} : row->keys;
}

bool change_state(Command command, WorkspaceState& state, const StateRange& range) {
  const CommandRow* row = find_command(command);
  const auto* change = row == nullptr ? nullptr : std::get_if<CommandRow::Change>(&row->act);
  if (change != nullptr) (*change)(state, range);
  return change != nullptr;
}

std::string_view missing_for(Needs needs, bool trace, bool evaluation, bool lesson) {
  switch (needs) {
    case Needs::nothing:
      return {};
    case Needs::trace:
      return trace ? "" : "Open a trace first.";
    case Needs::picture:
      return trace || evaluation ? "" : "Open a trace first.";
    case Needs::lesson:
      return lesson ? "" : "Open a lesson first.";
  }
  return {};
}

std::span<const MouseGesture> mouse_gestures() {
  static constexpr std::array kGestures = {
      MouseGesture{"point", "mark a token, a step or a head in every view"},
      MouseGesture{"click", "select it; for a token, see why it was kept or evicted"},
      MouseGesture{"drag", "pan"},
      MouseGesture{"wheel", "zoom at the pointer"},
      MouseGesture{"double-click", "show the whole view again"},
      MouseGesture{"Shift drag", "choose a range of tokens for every view"},
      MouseGesture{"colour bar", "drag: change its limits; double-click: reset them"},
      MouseGesture{"drop a file", "open a trace or a session, or capture a model"},
  };
  return kGestures;
}

}  // namespace kvloupe::window
