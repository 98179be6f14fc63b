#pragma once
// Keys, characters and the pointer in the order in which they came, given out frame by frame.
//
// ImGui 1.86 only knows the keys and buttons that are down when a frame begins. So a tap or a drag
// within one slow frame is lost, and characters typed while a command opens a field do not reach
// that field. This queue loses nothing: input that a frame must see alone waits for the next frame.

#include <deque>
#include <functional>
#include <variant>

namespace kvloupe::window {

struct KeyEvent {
  int key = 0;  // GLFW's code; 0: a character
  int scancode = 0;
  int action = 0;     // GLFW_PRESS, GLFW_RELEASE or GLFW_REPEAT
  int modifiers = 0;  // GLFW_MOD_…
  unsigned character = 0;
};

/// The pointer is at a place, or changes one of its buttons where it is.
struct PointerEvent {
  int button = -1;  // GLFW's number; -1: it moves
  bool down = false;
  double x = 0.0;  // of a move, in the window's units
  double y = 0.0;
};

/// The functions that take the events of a frame.
struct InputTakers {
  std::function<void(const KeyEvent&)> key;
  std::function<void(const PointerEvent&)> pointer;
};

class InputQueue {
 public:
  void push(const KeyEvent& event) { events_.emplace_back(event); }
  void push(const PointerEvent& event) { events_.emplace_back(event); }
  bool empty() const { return events_.empty(); }

  /// Call once before each frame: hands on the input for this frame. A key changes at most once in
  /// a frame, except for letters typed into a field. After a key that does something (a shortcut,
  /// Enter, an arrow) or a character that no text field takes, the rest waits until the third frame
  /// after: by then the field that was opened has the keyboard, and `typing` says so. A button of
  /// the pointer changes at most once in a frame, after the moves before it; a release, or a move
  /// after a change, waits for the next frame, so that a drag is seen at its first place, on its
  /// way, and at its last place.
  void next_frame(bool typing, const InputTakers& takers);

 private:
  std::deque<std::variant<KeyEvent, PointerEvent>> events_;
  int hold_ = 0;  // frames to come that see nothing new
};

}  // namespace kvloupe::window
