#pragma once
// Keys and characters in the order in which they came, given out frame by frame.
//
// ImGui 1.86 only knows whether a key is down when a frame begins. So a tap within one slow frame
// is lost, and characters typed while a command opens a field do not reach that field. This queue
// loses nothing: input that a frame must see alone waits for the next frame.

#include <deque>
#include <functional>
#include <vector>

namespace kvloupe::window {

struct KeyEvent {
  int key = 0;  // GLFW's code; 0: a character
  int scancode = 0;
  int action = 0;     // GLFW_PRESS, GLFW_RELEASE or GLFW_REPEAT
  int modifiers = 0;  // GLFW_MOD_…
  unsigned character = 0;
};

class InputQueue {
 public:
  void push(const KeyEvent& event) { events_.push_back(event); }
  bool empty() const { return events_.empty(); }

  /// Call once before each frame: hands on the input for this frame. A key changes at most once in
  /// a frame, except for letters typed into a field. After a key that does something (a shortcut,
  /// Enter, an arrow) or a character that no text field takes, the rest waits until the third frame
  /// after: by then the field that was opened has the keyboard, and `typing` says so.
  void next_frame(bool typing, const std::function<void(const KeyEvent&)>& hand_on);

 private:
  std::deque<KeyEvent> events_;
  int hold_ = 0;  // frames to come that see nothing new
};

}  // namespace kvloupe::window
