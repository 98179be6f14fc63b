#include "app/window/widgets/key_input.h"

#include <imgui.h>

#include <algorithm>
#include <array>

namespace kvloupe::window {

namespace {

constexpr int kFirstFunctionKey = 290;  // GLFW_KEY_F1

/// Whether ImGui moves among controls with it.
bool moves(int key) {
  constexpr std::array kMoving = {ImGuiKey_LeftArrow, ImGuiKey_RightArrow, ImGuiKey_UpArrow,
                                  ImGuiKey_DownArrow, ImGuiKey_Home,       ImGuiKey_End,
                                  ImGuiKey_PageUp,    ImGuiKey_PageDown};
  const ImGuiIO& io = ImGui::GetIO();
  return std::any_of(kMoving.begin(), kMoving.end(),
                     [&](ImGuiKey each) { return key == io.KeyMap[each]; });
}

/// Whether the binding counts with what has the keyboard.
bool is_read(const KeyBinding& binding, const KeyTakers& takers, bool typing) {
  const bool cancels = binding.command == Command::cancel;
  if (takers.sheet && !cancels && binding.command != Command::help &&
      binding.command != Command::quit) {
    return false;
  }
  const bool types_nothing = binding.control || cancels || binding.key >= kFirstFunctionKey;
  if (typing && !types_nothing) return false;
  // A line being typed has an undo of its own.
  const bool undoes = binding.command == Command::undo || binding.command == Command::redo;
  if (undoes && typing) return false;
  return !takers.panel || !(moves(binding.key) || binding.character == ' ');
}

}  // namespace

bool went_down(int key, bool repeats) {
  return ImGui::IsKeyPressed(static_cast<ImGuiKey>(key), repeats);
}

std::vector<Command> pressed_commands(const KeyTakers& takers) {
  const ImGuiIO& io = ImGui::GetIO();
  const bool typing = io.WantTextInput || ImGui::IsAnyItemActive();
  std::vector<Command> out;
  for (const KeyBinding& binding : key_bindings()) {
    if (!is_read(binding, takers, typing)) continue;
    if (binding.character != 0) {
      if (io.KeyCtrl || io.KeyAlt) continue;
      for (const ImWchar typed : io.InputQueueCharacters) {
        if (typed == static_cast<ImWchar>(binding.character)) out.push_back(binding.command);
      }
    } else if (io.KeyCtrl == binding.control && io.KeyShift == binding.shift && !io.KeyAlt &&
               went_down(binding.key, binding.repeats)) {
      out.push_back(binding.command);
    }
  }
  return out;
}

}  // namespace kvloupe::window
