#pragma once

#include <string>
#include <utility>

#include "app/scene/imgui_backend.h"
#include "app/scene/text_metrics.h"
#include "app/session/state.h"
#include "app/window/state/actions.h"
#include "app/window/state/results.h"
#include "app/window/state/shown_results.h"
#include "app/window/widgets/fonts.h"
#include "app/window/widgets/window_colours.h"

namespace kvloupe::window {

/// The inputs and the output of a panel in one frame.
struct PanelContext {
  WorkspaceState& state;      // its controls change it
  Results& results;           // the open files, and the queues of background jobs
  const ShownResults& shown;  // what is known for the state
  const Fonts& fonts;
  const figure::TextMetrics& metrics;
  figure::ImguiBackend& backend;
  const Hover& hovered;  // of the frame before: what to mark
  Hover& hover;          // of this frame: what the pointer is over
  Actions& actions;      // done after the panel is drawn
  bool playing = false;
  bool keyboard = false;        // the keyboard moves among this panel's controls
  bool reduced_motion = false;  // nothing moves by itself

  float px(float units) const { return units * fonts.scale(); }
  const WindowColours& colours() const { return window_colours(state.theme); }
  void ask(Action action) const { actions.push_back(std::move(action)); }
  void tell(std::string line) const { ask(Say{std::move(line)}); }
  void fail(std::string line) const { ask(Say{std::move(line), true}); }
};

}  // namespace kvloupe::window
