#include "app/window/shell/input_queue.h"

#define GLFW_INCLUDE_NONE
#include <GLFW/glfw3.h>

#include <algorithm>

namespace kvloupe::window {

namespace {

// ImGui reports a focused field only two frames after it opens. Until then keys wait. Otherwise a
// letter typed for the field would run a command, and a command tapped after leaving a field would
// be taken for text.
constexpr int kFramesToOpen = 3;

bool is_modifier(int key) { return key >= GLFW_KEY_LEFT_SHIFT && key <= GLFW_KEY_RIGHT_SUPER; }

/// Whether the key does something by itself, and does not only come with its character.
bool does_something(const KeyEvent& event) {
  if (is_modifier(event.key)) return false;
  const bool shortcut = (event.modifiers & (GLFW_MOD_CONTROL | GLFW_MOD_ALT)) != 0;
  return shortcut || event.key >= GLFW_KEY_ESCAPE;  // where the keys without a character begin
}

/// The events that one frame has seen so far.
struct Seen {
  std::vector<int> changed;  // keys
  bool moved = false;
  bool clicked = false;  // a button changed
};

/// Whether the frame may see this, too.
bool fits(const KeyEvent& event, bool typing, Seen& seen) {
  // In a field only the characters of a letter key count.
  const bool change = event.key != 0 && event.action != GLFW_REPEAT &&
                      (!typing || is_modifier(event.key) || does_something(event));
  if (!change) return true;
  if (std::find(seen.changed.begin(), seen.changed.end(), event.key) != seen.changed.end()) {
    return false;
  }
  seen.changed.push_back(event.key);
  return true;
}
bool fits(const PointerEvent& event, bool /*typing*/, Seen& seen) {
  if (seen.clicked) return false;
  const bool moves = event.button < 0;
  // A dragged item must be seen at its last place while the button is still down.
  if (!moves && !event.down && seen.moved) return false;
  (moves ? seen.moved : seen.clicked) = true;
  return true;
}

}  // namespace

void InputQueue::next_frame(bool typing, const InputTakers& takers) {
  if (hold_ > 0) --hold_;
  Seen seen;
  while (!events_.empty() && hold_ == 0) {
    const auto event = events_.front();
    if (!std::visit([&](const auto& each) { return fits(each, typing, seen); }, event)) break;
    events_.pop_front();
    if (const auto* pointer = std::get_if<PointerEvent>(&event)) {
      takers.pointer(*pointer);
      continue;
    }
    const auto& key = std::get<KeyEvent>(event);
    takers.key(key);
    const bool acts = key.key == 0 ? !typing : key.action == GLFW_PRESS && does_something(key);
    if (acts) hold_ = kFramesToOpen;
  }
}

}  // namespace kvloupe::window
