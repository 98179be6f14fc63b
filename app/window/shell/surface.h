#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

struct ImGuiContext;

namespace kvloupe::window {

/// 8-bit RGB, row-major, top row first.
struct Picture {
  int width = 0;
  int height = 0;
  std::vector<std::uint8_t> rgb;  // [height, width, 3]
};

/// A GLFW window with OpenGL 3.3 and an ImGui context, or the same off the screen, with a picture
/// to draw into, and input only through ImGui's IO (screenshots, tests).
class Surface {
 public:
  struct Options {
    std::string title = "kvloupe";
    int width = 1600;
    int height = 1000;
    bool offscreen = false;
  };
  /// Throws WorkError where there is no display or no OpenGL 3.3.
  explicit Surface(const Options& options);
  ~Surface();
  Surface(const Surface&) = delete;
  Surface& operator=(const Surface&) = delete;

  bool closing() const;
  void close();
  /// Takes back that it is closing.
  void stay_open();
  /// Handles input; sleeps up to `seconds` when there is none.
  void wait(double seconds);
  /// Whether keys wait for frames to come: then draw on.
  bool has_input() const;
  /// Ends a wait. Safe from any thread while a surface lives.
  static void wake();
  /// Called with the paths of files dropped on the window.
  void on_drop(std::function<void(std::vector<std::string>)> handler);
  void set_title(const std::string& title);

  /// Off the screen only.
  void resize(int width, int height);
  int width() const;
  int height() const;
  /// Scale of the display (1 for 96 dpi).
  float content_scale() const;

  void begin_frame();
  void end_frame();
  /// Instead of end_frame: ends it without drawing.
  void drop_frame();
  /// Call after ImGui's font atlas was rebuilt, outside a frame.
  void upload_fonts();
  /// The picture that end_frame drew last; off the screen only.
  Picture picture() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace kvloupe::window
