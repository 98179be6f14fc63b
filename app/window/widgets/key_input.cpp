#include "app/window/widgets/key_input.h"

#include <imgui.h>
#include <imgui_internal.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <string>
#include <string_view>

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
  if (takers.list && row.command != Command::help && row.command != Command::quit) return false;
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

bool list_is_open() {
  return ImGui::IsPopupOpen("", ImGuiPopupFlags_AnyPopupId | ImGuiPopupFlags_AnyPopupLevel);
}

namespace {

/// What was typed into the list that is open; one at a time is.
struct TypedInList {
  std::string text;
  double at = 0.0;      // when its last letter came
  int frame = 0;        // that has read the keyboard
  bool wanted = false;  // a line that begins so has not been met since
};

bool begins_with(std::string_view label, std::string_view typed) {
  const auto same = [](char a, char b) { return std::tolower(static_cast<unsigned char>(a)) == b; };
  return label.size() >= typed.size() && std::equal(typed.begin(), typed.end(), label.begin(),
                                                    [&](char b, char a) { return same(a, b); });
}

TypedInList& typed_in_list() {
  static TypedInList typed;
  constexpr double kPause = 1.0;  // seconds: then another word begins
  if (typed.frame == ImGui::GetFrameCount()) return typed;
  if (ImGui::IsWindowAppearing() || ImGui::GetTime() - typed.at > kPause) {
    typed.text.clear();
    typed.wanted = false;
  }
  typed.frame = ImGui::GetFrameCount();
  for (const ImWchar character : ImGui::GetIO().InputQueueCharacters) {
    if (character <= ' ' || character > '~') continue;
    typed.text += static_cast<char>(std::tolower(character));
    typed.at = ImGui::GetTime();
    typed.wanted = true;
  }
  return typed;
}

}  // namespace

bool list_line(const char* label, bool chosen, int flags) {
  TypedInList& typed = typed_in_list();
  bool pressed = ImGui::Selectable(label, chosen, flags);
  if (typed.wanted && (flags & ImGuiSelectableFlags_Disabled) == 0 &&
      begins_with(label, typed.text)) {
    typed.wanted = false;
    ImGui::SetFocusID(ImGui::GetItemID(), ImGui::GetCurrentWindow());
    ImGui::GetCurrentContext()->NavDisableHighlight = false;
    ImGui::SetScrollHereY(0.5F);
  }
  // ImGui by itself takes a line with Space alone.
  if (!pressed && ImGui::IsItemFocused() &&
      went_down(ImGui::GetIO().KeyMap[ImGuiKey_Enter], false)) {
    pressed = true;
    if ((flags & ImGuiSelectableFlags_DontClosePopups) == 0) ImGui::CloseCurrentPopup();
  }
  return pressed;
}

bool choose_word(const char* id, std::string& word,
                 const std::function<std::vector<std::string>()>& words, const char* shown) {
  if (!ImGui::BeginCombo(id, shown != nullptr ? shown : word.c_str())) return false;
  bool taken = false;
  for (const std::string now = word; const std::string& each : words()) {
    if (!list_line(each.c_str(), each == now)) continue;
    word = each;
    taken = true;
  }
  ImGui::EndCombo();
  return taken;
}

bool went_down(int key, bool repeats) {
  return ImGui::IsKeyPressed(static_cast<ImGuiKey>(key), repeats);
}

std::vector<Command> pressed_commands(const KeyTakers& takers) {
  const ImGuiIO& io = ImGui::GetIO();
  const bool typing = takers.field || takers.list || io.WantTextInput || ImGui::IsAnyItemActive();
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
    const bool shift = io.KeyShift == press.shift || press.any_shift;
    if (press.key != 0 && io.KeyCtrl == press.control && shift && !io.KeyAlt &&
        (went_down(press.key, press.repeats) ||
         (press.also_key != 0 && went_down(press.also_key, press.repeats)))) {
      out.push_back(row.command);
    }
  }
  return out;
}

}  // namespace kvloupe::window
