#include "app/window/commands.h"

#define GLFW_INCLUDE_NONE
#include <GLFW/glfw3.h>

#include <array>

namespace kvloupe::window {

namespace {
constexpr bool kControl = true;
constexpr bool kShift = true;
constexpr bool kRepeats = true;
constexpr std::array kBindings = {
    KeyBinding{Command::layer_up, "↑", "layer above", "Select", GLFW_KEY_UP, false, false, kRepeats},
    KeyBinding{Command::layer_down, "↓", "layer below", "Select", GLFW_KEY_DOWN, false, false, kRepeats},
    KeyBinding{Command::head_left, "←", "head to the left", "Select", GLFW_KEY_LEFT, false, false, kRepeats},
    KeyBinding{Command::head_right, "→", "head to the right", "Select", GLFW_KEY_RIGHT, false, false, kRepeats},
    KeyBinding{Command::token_back, "Shift ←", "token before", "Select", GLFW_KEY_LEFT, false, kShift, kRepeats},
    KeyBinding{Command::token_forward, "Shift →", "token after", "Select", GLFW_KEY_RIGHT, false, kShift, kRepeats},
    KeyBinding{Command::cancel, "Esc", "no token; close what is open", "Select", GLFW_KEY_ESCAPE},

    KeyBinding{Command::step_back, ",", "step back", "Steps", GLFW_KEY_COMMA, false, false, kRepeats},
    KeyBinding{Command::step_forward, ".", "step forward", "Steps", GLFW_KEY_PERIOD, false, false, kRepeats},
    KeyBinding{Command::step_first, "Home", "first step", "Steps", GLFW_KEY_HOME},
    KeyBinding{Command::step_last, "End", "last step", "Steps", GLFW_KEY_END},
    KeyBinding{Command::play, "Space", "play, pause", "Steps", GLFW_KEY_SPACE},

    KeyBinding{Command::budget_down, "[", "smaller budget", "Policy", GLFW_KEY_LEFT_BRACKET, false, false, kRepeats},
    KeyBinding{Command::budget_up, "]", "larger budget", "Policy", GLFW_KEY_RIGHT_BRACKET, false, false, kRepeats},
    KeyBinding{Command::policy_b, "B", "policy B on, off", "Policy", GLFW_KEY_B},
    KeyBinding{Command::edit_spec, "/", "type the spec of policy A", "Policy", GLFW_KEY_SLASH},

    KeyBinding{Command::tiles_1, "1", "one view", "Views", GLFW_KEY_1},
    KeyBinding{Command::tiles_2, "2", "two views", "Views", GLFW_KEY_2},
    KeyBinding{Command::tiles_3, "3", "three views", "Views", GLFW_KEY_3},
    KeyBinding{Command::tiles_4, "4", "four views", "Views", GLFW_KEY_4},
    KeyBinding{Command::next_view, "V", "next kind of view in this tile", "Views", GLFW_KEY_V},
    KeyBinding{Command::previous_view, "Shift V", "previous kind of view", "Views", GLFW_KEY_V, false, kShift},
    KeyBinding{Command::next_tile, "W", "next tile", "Views", GLFW_KEY_W},
    KeyBinding{Command::zoom_in, "+", "zoom in (or the wheel)", "Views", GLFW_KEY_EQUAL, false, false, kRepeats},
    KeyBinding{Command::zoom_out, "−", "zoom out", "Views", GLFW_KEY_MINUS, false, false, kRepeats},
    KeyBinding{Command::pan_left, "A", "pan left (or drag)", "Views", GLFW_KEY_A, false, false, kRepeats},
    KeyBinding{Command::pan_right, "D", "pan right", "Views", GLFW_KEY_D, false, false, kRepeats},
    KeyBinding{Command::reset_view, "0", "whole view (or double-click)", "Views", GLFW_KEY_0},

    KeyBinding{Command::open, "Ctrl O", "open a trace", "File", GLFW_KEY_O, kControl},
    KeyBinding{Command::open_session, "Ctrl Shift O", "open a session", "File", GLFW_KEY_O, kControl, kShift},
    KeyBinding{Command::save_session, "Ctrl S", "save the session", "File", GLFW_KEY_S, kControl},
    KeyBinding{Command::export_view, "Ctrl E", "export the view", "File", GLFW_KEY_E, kControl},
    KeyBinding{Command::quit, "Ctrl Q", "quit", "File", GLFW_KEY_Q, kControl},

    KeyBinding{Command::next_panel, "F6", "use the controls of the next panel by key", "Window", GLFW_KEY_F6},
    KeyBinding{Command::left_panel, "F7", "left panel", "Window", GLFW_KEY_F7},
    KeyBinding{Command::bottom_panel, "F8", "bottom panel", "Window", GLFW_KEY_F8},
    KeyBinding{Command::right_panel, "F9", "right panel", "Window", GLFW_KEY_F9},
    KeyBinding{Command::theme, "T", "light, dark", "Window", GLFW_KEY_T},
    KeyBinding{Command::scale_up, "Ctrl +", "larger", "Window", GLFW_KEY_EQUAL, kControl, false, kRepeats},
    KeyBinding{Command::scale_down, "Ctrl −", "smaller", "Window", GLFW_KEY_MINUS, kControl, false, kRepeats},
    KeyBinding{Command::scale_reset, "Ctrl 0", "normal size", "Window", GLFW_KEY_0, kControl},
    KeyBinding{Command::help, "F1", "this sheet (or ?)", "Window", GLFW_KEY_F1},
    KeyBinding{Command::help, "?", "", "Window", GLFW_KEY_SLASH, false, kShift},
};
}  // namespace

std::span<const KeyBinding> key_bindings() { return kBindings; }

std::string_view keys_of(Command command) {
  for (const KeyBinding& binding : kBindings) {
    if (binding.command == command) return binding.keys;
  }
  return {};
}

}  // namespace kvloupe::window
