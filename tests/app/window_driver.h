#pragma once

#include <imgui.h>

#include <map>
#include <string>
#include <vector>

#include "app/window/shell/surface.h"
#include "app/window/shell/workspace.h"

namespace kvloupe::test {

/// The real workspace on a real OpenGL surface, driven by mouse and keys put into ImGui's IO. What
/// is done returns the driver, for what is done next.
class WindowDriver {
 public:
  explicit WindowDriver(int width = 1280, int height = 800, window::Workspace::Host host = {});

  /// Draws one frame; returns the seconds it took.
  double frame();
  WindowDriver& frames(int count);
  /// Draws until nothing computes any more; fails the test after four minutes.
  WindowDriver& settle();

  WindowDriver& key(int glfw_key, bool control = false, bool shift = false);
  WindowDriver& type(const std::string& utf8);
  WindowDriver& move(float x, float y);
  WindowDriver& press(bool down);
  WindowDriver& click(float x, float y);
  WindowDriver& double_click(float x, float y);
  WindowDriver& drag(float x0, float y0, float x1, float y1, int steps = 8);
  WindowDriver& wheel(float x, float y, float notches);
  WindowDriver& resize(int width, int height);

  /// Looks with the pointer for a control of an ImGui window (or child window) whose name holds
  /// `window`, and leaves the pointer on it. `names` are what is pushed as identities before it,
  /// then its label. False where it is nowhere to be seen.
  bool point_at(const std::string& window, const std::vector<std::string>& names);
  /// The same, with a click; fails the test where there is no such control.
  WindowDriver& press_on(const std::string& window, const std::vector<std::string>& names);

  window::Picture picture() { return surface.picture(); }
  /// Share of pixels in a rectangle that differ between two pictures of one size.
  static double difference(const window::Picture& a, const window::Picture& b, int x0, int y0,
                           int x1, int y1);
  /// Number of different colours in a picture, up to 256: 1 where it is blank.
  static int colours(const window::Picture& picture);

  window::Surface surface;
  bool asked_to_close = false;
  window::Workspace workspace;

 private:
  std::map<ImGuiID, ImVec2> found_;  // where controls were last
};

}  // namespace kvloupe::test
