#pragma once

#include <vector>

#include "app/window/widgets/commands.h"

namespace kvloupe::window {

/// The receiver of the keyboard in this frame.
struct KeyTakers {
  bool sheet = false;  // one is open: only its own keys, help and quit are read
  bool field = false;  // one is about to get what is typed
  bool panel = false;  // the arrows and the space bar move among a panel's controls
};

/// The commands whose keys were pressed or typed since the last frame, in the order of the list of
/// keys. While a text is typed, only those that type nothing.
std::vector<Command> pressed_commands(const KeyTakers& takers);

/// Whether a key, by the number that GLFW gives it (ImGuiIO::KeyMap has these), went down. Dear ImGui
/// takes such a number for its own kind of key from version 1.87 on.
bool went_down(int key, bool repeats = true);

}  // namespace kvloupe::window
