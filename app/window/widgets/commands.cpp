#include "app/window/widgets/commands.h"

#define GLFW_INCLUDE_NONE
#include <GLFW/glfw3.h>

#include <array>

namespace kvloupe::window {

namespace {
enum Modifier : unsigned { kControl = 1, kShift = 2, kRepeats = 4 };

/// A key, whatever it types; with modifiers.
constexpr KeyBinding key(Command command, std::string_view keys, std::string_view words,
                         std::string_view group, int code, unsigned modifiers = 0) {
  return {command,
          keys,
          words,
          group,
          code,
          0,
          (modifiers & kControl) != 0,
          (modifiers & kShift) != 0,
          (modifiers & kRepeats) != 0};
}
/// A character, on whatever key the layout has it. The system repeats it while held.
constexpr KeyBinding character(Command command, std::string_view keys, std::string_view words,
                               std::string_view group, char typed) {
  return {command, keys, words, group, 0, typed};
}

constexpr std::array kBindings = {
    key(Command::layer_up, "↑", "layer above", "Select", GLFW_KEY_UP, kRepeats),
    key(Command::layer_down, "↓", "layer below", "Select", GLFW_KEY_DOWN, kRepeats),
    key(Command::head_left, "←", "head to the left", "Select", GLFW_KEY_LEFT, kRepeats),
    key(Command::head_right, "→", "head to the right", "Select", GLFW_KEY_RIGHT, kRepeats),
    key(Command::token_back, "Shift ←", "previous token", "Select", GLFW_KEY_LEFT,
        kShift | kRepeats),
    key(Command::token_forward, "Shift →", "next token", "Select", GLFW_KEY_RIGHT,
        kShift | kRepeats),
    character(Command::whole_range, "R", "show all tokens again (Shift-drag chooses a range)",
              "Select", 'r'),
    key(Command::cancel, "Esc", "deselect the token; close what is open", "Select",
        GLFW_KEY_ESCAPE),

    character(Command::step_back, ",", "previous step", "Steps", ','),
    character(Command::step_forward, ".", "next step", "Steps", '.'),
    key(Command::step_first, "Home", "first step", "Steps", GLFW_KEY_HOME),
    key(Command::step_last, "End", "last step", "Steps", GLFW_KEY_END),
    character(Command::play, "Space", "play, pause", "Steps", ' '),

    character(Command::budget_down, "[", "smaller budget", "Policy", '['),
    character(Command::budget_up, "]", "larger budget", "Policy", ']'),
    character(Command::policy_b, "B", "policy B on or off", "Policy", 'b'),
    character(Command::edit_spec, "/", "type policy A", "Policy", '/'),
    key(Command::undo, "Ctrl Z", "undo a change of policy or budget", "Policy", GLFW_KEY_Z,
        kControl),
    key(Command::redo, "Ctrl Shift Z", "redo the change", "Policy", GLFW_KEY_Z, kControl | kShift),

    character(Command::tiles_1, "1", "one view", "Views", '1'),
    character(Command::tiles_2, "2", "two views", "Views", '2'),
    character(Command::tiles_3, "3", "three views", "Views", '3'),
    character(Command::tiles_4, "4", "four views", "Views", '4'),
    character(Command::tiles_ab, "C", "A | B: this view under both policies", "Views", 'c'),
    character(Command::choose_view, "K", "choose what this tile shows", "Views", 'k'),
    character(Command::next_view, "V", "next kind of view in this tile", "Views", 'v'),
    character(Command::previous_view, "Shift V", "previous kind of view in this tile", "Views",
              'V'),
    character(Command::next_tile, "W", "next tile", "Views", 'w'),
    character(Command::previous_tile, "Shift W", "previous tile", "Views", 'W'),
    character(Command::zoom_in, "+", "zoom in (or the wheel)", "Views", '+'),
    character(Command::zoom_out, "−", "zoom out", "Views", '-'),
    character(Command::pan_left, "A", "pan left (or drag)", "Views", 'a'),
    character(Command::pan_right, "D", "pan right", "Views", 'd'),
    character(Command::reset_view, "0", "whole view (or double-click)", "Views", '0'),

    key(Command::layout_explore, "Ctrl 1", "explore one head", "Layouts", GLFW_KEY_1, kControl),
    key(Command::layout_compare, "Ctrl 2", "compare two policies", "Layouts", GLFW_KEY_2, kControl),
    key(Command::layout_merge, "Ctrl 3", "merging", "Layouts", GLFW_KEY_3, kControl),
    key(Command::layout_sinks, "Ctrl 4", "attention sinks", "Layouts", GLFW_KEY_4, kControl),
    key(Command::layout_figure, "Ctrl 5", "one view alone", "Layouts", GLFW_KEY_5, kControl),

    character(Command::lessons, "L", "choose a lesson", "Lessons", 'l'),
    key(Command::lesson_next, "Page Down", "next page (without a lesson: next tile)", "Lessons",
        GLFW_KEY_PAGE_DOWN),
    key(Command::lesson_back, "Page Up", "previous page (previous tile)", "Lessons",
        GLFW_KEY_PAGE_UP),
    key(Command::lesson_view, "Ctrl Home", "return to the page's view", "Lessons", GLFW_KEY_HOME,
        kControl),
    key(Command::lesson_panel, "F10", "fold or unfold the lesson", "Lessons", GLFW_KEY_F10),

    key(Command::open, "Ctrl O", "open a trace", "File", GLFW_KEY_O, kControl),
    key(Command::open_session, "Ctrl Shift O", "open a session", "File", GLFW_KEY_O,
        kControl | kShift),
    key(Command::save_session, "Ctrl S", "save the session", "File", GLFW_KEY_S, kControl),
    key(Command::export_view, "Ctrl E", "export the view", "File", GLFW_KEY_E, kControl),
    key(Command::copy_finding, "Ctrl Shift C",
        "copy the finding: which heads read the followed tokens, and which lost them", "File",
        GLFW_KEY_C, kControl | kShift),
    key(Command::new_capture, "Ctrl N", "capture a new trace", "File", GLFW_KEY_N, kControl),
    key(Command::demo, "Ctrl D", "open the demo", "File", GLFW_KEY_D, kControl),
    key(Command::closed_loop, "Ctrl R", "run policy A in the model (closed loop)", "File",
        GLFW_KEY_R, kControl),
    key(Command::quit, "Ctrl Q", "quit", "File", GLFW_KEY_Q, kControl),

    key(Command::palette, "Ctrl K", "find anything: type part of its name", "Window", GLFW_KEY_K,
        kControl),
    key(Command::present, "F5", "present: one view, large (← → steps, ↑ ↓ views, Esc)", "Window",
        GLFW_KEY_F5),
    key(Command::next_panel, "F6", "move the keyboard to the next panel's controls", "Window",
        GLFW_KEY_F6),
    key(Command::left_panel, "F7", "left panel", "Window", GLFW_KEY_F7),
    key(Command::bottom_panel, "F8", "bottom panel", "Window", GLFW_KEY_F8),
    key(Command::right_panel, "F9", "right panel", "Window", GLFW_KEY_F9),
    character(Command::theme, "T", "next theme: light, dark, high contrast", "Window", 't'),
    character(Command::patterns, "P", "patterns beside the colours of fates, on or off", "Window",
              'p'),
    character(Command::reduced_motion, "N", "reduced motion: Space goes one step on", "Window",
              'n'),
    character(Command::colour_map, "M", "next colour map: viridis, cividis, grey", "Window", 'm'),
    key(Command::scale_up, "Ctrl +", "larger", "Window", GLFW_KEY_EQUAL, kControl | kRepeats),
    key(Command::scale_down, "Ctrl −", "smaller", "Window", GLFW_KEY_MINUS, kControl | kRepeats),
    key(Command::scale_reset, "Ctrl 0", "normal size", "Window", GLFW_KEY_0, kControl),
    key(Command::help, "F1", "show this sheet (or ?)", "Window", GLFW_KEY_F1),
    character(Command::help, "?", "", "Window", '?'),
};
}  // namespace

std::span<const KeyBinding> key_bindings() { return kBindings; }

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

std::string_view keys_of(Command command) {
  for (const KeyBinding& binding : kBindings) {
    if (binding.command == command) return binding.keys;
  }
  return {};
}

}  // namespace kvloupe::window
