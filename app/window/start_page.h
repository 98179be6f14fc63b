#pragma once

#include <functional>
#include <string>

#include "app/window/demo_job.h"

namespace kvloupe::window {

class Workspace;

/// What a window without a trace shows: the demo, the lessons, the files opened last, and how a
/// trace is made.
class StartPage {
 public:
  StartPage(std::function<void()> wake, demo::DemoPlaces places)
      : places_(std::move(places)), demo_(std::move(wake)) {}

  /// Captures the demo model on its prompt where that is not kept yet, and opens the trace.
  void open_demo();
  bool capturing() const { return demo_.running(); }
  /// 0 to 1 while capturing.
  double fraction() const { return demo_.fraction(); }
  /// Once a frame, also where the page is not seen: shows the demo when it is there.
  void follow(Workspace& workspace);
  /// Into the room that is left in the current ImGui window.
  void draw(Workspace& workspace);

 private:
  void draw_demo(Workspace& workspace, float width);
  void draw_files(Workspace& workspace, float width);
  void draw_lessons(Workspace& workspace, float width);

  demo::DemoPlaces places_;
  DemoJob demo_;
  bool appeared_ = false;
};

}  // namespace kvloupe::window
