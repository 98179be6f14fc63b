#include "app/window/input_queue.h"

#define GLFW_INCLUDE_NONE
#include <GLFW/glfw3.h>

#include <algorithm>

namespace kvloupe::window {

namespace {

// One frame opens or leaves a field, the next gives or takes the keyboard, and only the one after
// begins with ImGui saying so: until then a letter for the field would be taken for a command, or a
// tapped command for text, of which press and release come in one frame and are not seen.
constexpr int kFramesToOpen = 3;

bool is_modifier(int key) { return key >= GLFW_KEY_LEFT_SHIFT && key <= GLFW_KEY_RIGHT_SUPER; }

/// Whether the key does something by itself, and does not only come with its character.
bool does_something(const KeyEvent& event) {
  if (is_modifier(event.key)) return false;
  const bool shortcut = (event.modifiers & (GLFW_MOD_CONTROL | GLFW_MOD_ALT)) != 0;
  return shortcut || event.key >= GLFW_KEY_ESCAPE;  // where the keys without a character begin
}

}  // namespace

void InputQueue::next_frame(bool typing, const std::function<void(const KeyEvent&)>& hand_on) {
  if (hold_ > 0) --hold_;
  std::vector<int> changed;
  while (!events_.empty() && hold_ == 0) {
    const KeyEvent event = events_.front();
    // In a field only the characters of a letter key count.
    const bool change = event.key != 0 && event.action != GLFW_REPEAT &&
                        (!typing || is_modifier(event.key) || does_something(event));
    if (change && std::find(changed.begin(), changed.end(), event.key) != changed.end()) break;
    events_.pop_front();
    if (change) changed.push_back(event.key);
    hand_on(event);
    const bool acts =
        event.key == 0 ? !typing : event.action == GLFW_PRESS && does_something(event);
    if (acts) hold_ = kFramesToOpen;
  }
}

}  // namespace kvloupe::window
