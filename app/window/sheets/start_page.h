#pragma once

#include <functional>

#include "app/window/state/jobs.h"

namespace kvloupe::window {

class LessonPlayer;
class RecentFiles;
struct PanelContext;

/// The content of a window without a trace: the demo, the lessons, the recently opened files, and
/// how to make a trace.
class StartPage {
 public:
  StartPage(std::function<void()> wake, demo::DemoPlaces places)
      : places_(std::move(places)), demo_(std::move(wake)) {}

  /// Captures the demo model on its prompt if that trace does not exist yet, and opens the trace.
  void open_demo();
  bool capturing() const { return demo_.running(); }
  /// 0 to 1 while capturing.
  double fraction() const { return demo_.fraction(); }
  /// Call once per frame, even if the page is not visible: shows the demo when it is ready.
  void follow(const PanelContext& context);
  /// Draws into the free room of the current ImGui window. `takes_keyboard`: no sheet has it.
  void draw(const PanelContext& context, const RecentFiles& recent, LessonPlayer& lessons,
            bool takes_keyboard);

 private:
  void draw_demo(const PanelContext& context, float width);
  void draw_files(const PanelContext& context, const RecentFiles& recent, float width);
  void draw_lessons(const PanelContext& context, LessonPlayer& lessons, float width);

  demo::DemoPlaces places_;
  DemoJob demo_;
  bool appeared_ = false;
};

}  // namespace kvloupe::window
