#pragma once

#include <functional>
#include <string>
#include <vector>

#include "app/window/widgets/commands.h"

namespace kvloupe::window {

/// The receiver of the keyboard in this frame.
struct KeyTakers {
  bool sheet = false;  // one is open: only its own keys, help and quit are read
  bool field = false;  // one is about to get what is typed
  bool list = false;   // a drop-down or a menu is open: it alone gets what is typed, Esc too
  bool panel = false;  // the arrows and the space bar move among a panel's controls
};

/// The commands whose keys were pressed or typed since the last frame, in the order of the list of
/// keys. While a text is typed, only those that type nothing.
std::vector<Command> pressed_commands(const KeyTakers& takers);

/// Whether a drop-down, a menu or another popup is open.
bool list_is_open();

/// A line of an open list, as ImGui::Selectable. What is typed while the list is open leads to the
/// first line that begins so; Enter takes it.
bool list_line(const char* label, bool chosen, int flags = 0);

/// A list that opens, of words to choose from; `words` makes them when it is open, and it shows
/// `shown` or the word. Whether one was taken.
bool choose_word(const char* id, std::string& word,
                 const std::function<std::vector<std::string>()>& words,
                 const char* shown = nullptr);

/// Whether a key, by the number that GLFW gives it (ImGuiIO::KeyMap has these), went down. Dear
/// ImGui takes such a number for its own kind of key from version 1.87 on.
bool went_down(int key, bool repeats = true);

}  // namespace kvloupe::window
