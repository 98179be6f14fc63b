#include "app/window/shell/window.h"

#include <fmt/format.h>

#include <chrono>
#include <cstdio>
#include <exception>
#include <thread>
#include <utility>

#include "analysis/base/core/error.h"
#include "analysis/base/system/output_file.h"
#include "analysis/evaluation/evaluation.h"
#include "analysis/trace/model_files.h"
#include "app/request/command_line.h"
#include "app/scene/png_encoder.h"
#include "app/session/session.h"
#include "app/window/shell/surface.h"
#include "app/window/shell/workspace.h"
#include "app/window/state/recent_files.h"
#include "app/window/widgets/marks.h"

namespace kvloupe::window {

namespace {

constexpr double kSleep = 30.0;          // seconds without an event; any job's end wakes the window
constexpr double kWhileComputing = 0.1;  // for progress
constexpr double kWhilePlaying = 0.03;
// A click may press and release within one event: down, up, the list it opens measured, then shown.
constexpr int kFramesPerEvent = 4;
constexpr auto kNapOffscreen = std::chrono::milliseconds(5);

void one_frame(Surface& surface, Workspace& workspace, bool draw = true) {
  if (workspace.prepare_fonts(surface.content_scale())) surface.upload_fonts();
  surface.begin_frame();
  workspace.frame();
  if (draw) {
    surface.end_frame();
  } else {
    surface.drop_frame();
  }
}

/// The files that the command line names, read before the window opens: an error in a file is
/// reported before a missing display.
struct Asked {
  std::optional<WorkspaceState> session;
  std::vector<TracePointer> traces;  // the first is shown
  std::string evaluation;            // its path; empty: none
  std::string model;                 // the same
};

Asked read_what_was_asked(const WindowOptions& options) {
  Asked asked;
  refuse_own_input(options.screenshot, {options.inputs.begin(), options.inputs.end()});
  std::string session;
  const auto take = [](std::string& place, const std::string& input, const char* what) {
    if (!place.empty())
      throw UsageError(fmt::format("{} and {}: the window opens one {}; leave one of them out",
                                   place, input, what));
    place = input;
  };
  const auto take_session = [&](const std::string& input) {
    take(session, input, "session");
    asked.session = read_session(input);
  };
  if (!options.session.empty()) take_session(options.session);
  for (const std::string& input : options.inputs) {
    if (looks_like_evaluation(input)) {
      take(asked.evaluation, input, "file of results");
      read_evaluation(input);  // throws where it is none after all
    } else if (is_session_file(input)) {
      take_session(input);
    } else if (holds_model(input)) {
      take(asked.model, input, "model");
    } else {
      asked.traces.push_back(std::make_shared<const Trace>(input));
    }
  }
  if (asked.traces.empty() && asked.session && !asked.session->trace.empty() &&
      !options.screenshot.empty()) {
    // Without --screenshot the session opens anyway, and the window reports the missing trace.
    asked.traces.push_back(std::make_shared<const Trace>(asked.session->trace));
  }
  return asked;
}

/// One line of several.
std::string in_all(const std::vector<std::string>& lines) {
  if (lines.size() == 1) return lines.front();
  return lines.front() + " (and " + std::to_string(lines.size() - 1) + " more, on standard error)";
}

/// Throws FileError: the folder is missing or unwritable, the disk is full.
void write_png(const Picture& picture, const std::string& path) {
  figure::Pixels pixels{picture.width, picture.height, {}};
  const std::size_t count = picture.rgb.size() / 3;
  pixels.rgba.resize(count * 4);
  for (std::size_t i = 0; i < count; ++i) {
    for (std::size_t c = 0; c < 3; ++c) pixels.rgba[4 * i + c] = picture.rgb[3 * i + c];
    pixels.rgba[4 * i + 3] = 255;
  }
  write_whole_file(path, figure::encode_png(pixels));
}

int take_screenshot(Surface& surface, Workspace& workspace, const std::string& path) {
  // The first frames ask for the jobs; after them the workspace knows when it has settled.
  constexpr int kFirstFrames = 3;
  // Some jobs begin only when their inputs have not changed for a while.
  constexpr auto kRest = std::chrono::milliseconds(300);
  auto settled_since = std::chrono::steady_clock::now();
  for (int frame = 0;
       frame < kFirstFrames || std::chrono::steady_clock::now() - settled_since < kRest; ++frame) {
    // Nobody sees these: a software renderer would take the processor from the jobs.
    one_frame(surface, workspace, false);
    if (!workspace.results.open_error().empty()) {
      throw WorkError(workspace.results.open_error());  // names the file
    }
    if (!workspace.lessons.trace_error().empty()) throw WorkError(workspace.lessons.trace_error());
    if (!workspace.results.evaluation_error().empty())
      throw WorkError(workspace.results.evaluation_error());
    if (!workspace.settled()) settled_since = std::chrono::steady_clock::now();
    if (!workspace.wants_frame()) std::this_thread::sleep_for(kNapOffscreen);
  }
  one_frame(surface, workspace);
  write_png(surface.picture(), path);
  return 0;
}

void show_until_closed(Surface& surface, Workspace& workspace) {
  int frames_left = kFramesPerEvent;
  while (!surface.closing() || !workspace.may_quit()) {
    surface.stay_open();
    if (frames_left > 0 || surface.has_input() || workspace.wants_frame()) {
      surface.wait(0.0);
      --frames_left;
    } else {
      surface.wait(workspace.animating()                     ? kWhilePlaying
                   : workspace.settled() && !tooltip_waits() ? kSleep
                                                             : kWhileComputing);
      frames_left = kFramesPerEvent;
    }
    one_frame(surface, workspace);
  }
}

}  // namespace

int run_window(const WindowOptions& options) {
  Asked asked = read_what_was_asked(options);
  const bool offscreen = !options.screenshot.empty();
  Surface surface({"kvloupe", options.width, options.height, offscreen});
  Workspace::Host host;
  if (!offscreen) {
    host.wake = [] { Surface::wake(); };
    host.close = [&surface] { surface.close(); };
    host.recent_files = recent_files_path();
    host.preferences = preferences_path();
    host.models = known_models_path();
    host.set_title = [&surface](const std::string& title) { surface.set_title(title); };
  }
  Workspace workspace(host);
  const TracePointer first = asked.traces.empty() ? nullptr : asked.traces.front();
  std::vector<std::string> aside;
  for (std::size_t i = 1; i < asked.traces.size(); ++i) {
    const Trace& other = *asked.traces[i];
    workspace.results.keep(asked.traces[i]);
    // The run of the shown tokens in the other loop is compared with it, and needs no word.
    if (other.run().closed_loop() == first->run().closed_loop() ||
        other.tokens().ids != first->tokens().ids)
      aside.push_back(other.path().string());
  }
  if (asked.session)
    workspace.restore(std::move(*asked.session), first);
  else if (first)
    workspace.show(first);
  if (options.demo) workspace.start_page.open_demo();
  if (options.lesson) workspace.lessons.open(*options.lesson, options.lesson_traces);
  if (!asked.evaluation.empty()) workspace.results.open_evaluation(asked.evaluation);
  if (!asked.model.empty()) workspace.open(asked.model);
  workspace.set_aside(aside);
  if (!options.problems.empty()) workspace.fail(in_all(options.problems));
  if (offscreen) return take_screenshot(surface, workspace, options.screenshot);

  surface.on_drop([&](const std::vector<std::string>& paths) {
    if (paths.empty()) return;
    workspace.open(paths.front());
    workspace.set_aside({paths.begin() + 1, paths.end()});
  });
  try {
    show_until_closed(surface, workspace);
  } catch (...) {
    const std::string kept = keep_last_session(workspace, host.recent_files);
    if (!kept.empty()) fmt::print(stderr, "kvloupe: {}\n", kept);
    throw;  // the command line reports it
  }
  return 0;
}

std::string keep_last_session(const Workspace& workspace,
                              const std::filesystem::path& recent_list) {
  if (recent_list.empty() || !workspace.results.trace()) return {};
  const std::filesystem::path session = recent_list.parent_path() / "last-session.json";
  try {
    std::filesystem::create_directories(recent_list.parent_path());
    workspace.save_session(session.string());
    RecentFiles(recent_list).add(session);
  } catch (const std::exception&) {
    return {};  // the error to report is the one that ended the window
  }
  return "what the window showed is kept; open it again with: kvloupe --session " +
         request::shell_word(session.string());
}

}  // namespace kvloupe::window
