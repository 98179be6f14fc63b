#include "app/window/window.h"

#include <chrono>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "analysis/error.h"
#include "app/window/picture_file.h"
#include "app/window/session.h"
#include "app/window/surface.h"
#include "app/window/workspace.h"

namespace kvloupe::window {

namespace {

constexpr double kSleep = 30.0;         // seconds without an event; any job's end wakes the window
constexpr double kWhileComputing = 0.1;  // for progress
constexpr double kWhilePlaying = 0.03;
constexpr int kFramesPerEvent = 2;  // ImGui measures a new list in one frame and shows it in the next
constexpr auto kNapOffscreen = std::chrono::milliseconds(5);

void one_frame(Surface& surface, Workspace& workspace) {
  if (workspace.prepare_fonts(surface.content_scale())) surface.upload_fonts();
  surface.begin_frame();
  workspace.frame();
  surface.end_frame();
}

void open_what_was_asked(Workspace& workspace, const WindowOptions& options) {
  if (!options.session.empty()) workspace.open_session(options.session);
  if (!options.trace.empty()) workspace.open(options.trace);
}

int take_screenshot(Surface& surface, Workspace& workspace, const std::string& path) {
  // The first frames ask for the jobs; after them the workspace knows when it has settled.
  constexpr int kFirstFrames = 3;
  for (int frame = 0; frame < kFirstFrames || !workspace.settled(); ++frame) {
    one_frame(surface, workspace);
    if (!workspace.results.open_error().empty()) {
      throw WorkError(workspace.results.open_error());  // names the file
    }
    if (!workspace.wants_frame()) std::this_thread::sleep_for(kNapOffscreen);
  }
  one_frame(surface, workspace);
  write_png(surface.picture(), path);
  return 0;
}

}  // namespace

int run_window(const WindowOptions& options) {
  const bool offscreen = !options.screenshot.empty();
  Surface surface({"kvloupe", options.width, options.height, offscreen});
  Workspace::Host host;
  if (!offscreen) {
    host.wake = [] { Surface::wake(); };
    host.close = [&surface] { surface.close(); };
    host.set_title = [&surface](const std::string& title) { surface.set_title(title); };
  }
  Workspace workspace(host);
  open_what_was_asked(workspace, options);
  if (offscreen) return take_screenshot(surface, workspace, options.screenshot);

  surface.on_drop([&](const std::vector<std::string>& paths) {
    if (!paths.empty()) workspace.open(paths.front());
  });
  int frames_left = kFramesPerEvent;
  while (!surface.closing()) {
    if (frames_left > 0 || workspace.wants_frame()) {
      surface.wait(0.0);
      --frames_left;
    } else {
      surface.wait(workspace.animating() ? kWhilePlaying : workspace.settled() ? kSleep : kWhileComputing);
      frames_left = kFramesPerEvent;
    }
    one_frame(surface, workspace);
  }
  return 0;
}

}  // namespace kvloupe::window
