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

/// Whether the keys of a command count with the present receiver of the keyboard.
bool is_read(const CommandRow& row, const KeyTakers& takers, bool typing) {
  const bool cancels = row.command == Command::cancel;
  if (takers.sheet && !cancels && row.command != Command::help && row.command != Command::quit)
    return false;
  const bool types_nothing = row.press.control || cancels || row.press.key >= kFirstFunctionKey;
  if (typing && !types_nothing) return false;
  // A line being typed has an undo of its own.
  if (typing && (row.command == Command::undo || row.command == Command::redo)) return false;
  return !takers.panel || !(moves(row.press.key) || row.press.character == ' ');
}

}  // namespace

bool went_down(int key, bool repeats) {
  return ImGui::IsKeyPressed(static_cast<ImGuiKey>(key), repeats);
}

std::vector<Command> pressed_commands(const KeyTakers& takers) {
  const ImGuiIO& io = ImGui::GetIO();
  const bool typing = takers.field || io.WantTextInput || ImGui::IsAnyItemActive();
  std::vector<Command> out;
  for (const CommandRow& row : commands()) {
    if (!is_read(row, takers, typing)) continue;
    const KeyPress& press = row.press;
    if (!io.KeyCtrl && !io.KeyAlt && !typing) {
      for (const ImWchar typed : io.InputQueueCharacters) {
        if (typed != 0 && (typed == static_cast<ImWchar>(press.character) ||
                           typed == static_cast<ImWchar>(press.also)))
          out.push_back(row.command);
      }
    }
    if (press.key != 0 && io.KeyCtrl == press.control && io.KeyShift == press.shift && !io.KeyAlt &&
        (went_down(press.key, press.repeats) ||
         (press.also_key != 0 && went_down(press.also_key, press.repeats)))) {
      out.push_back(row.command);
    }
  }
  return out;
}

}  // namespace kvloupe::window
