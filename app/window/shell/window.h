#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "analysis/trace/trace.h"
#include "app/lesson/lesson.h"

namespace kvloupe::window {

struct WindowOptions {
  /// Traces and results of kvloupe-capture eval (the first is shown, the others are at hand), or
  /// one session.
  std::vector<std::string> inputs;
  std::string session;                   // empty: none
  std::string screenshot;                // PNG to write once all jobs are done; empty: stay open
  bool demo = false;                     // to show, beside no inputs
  std::optional<lesson::Lesson> lesson;  // to open; on its own trace, where none is given here
  /// The one shown first, then its closed-loop runs.
  std::vector<std::shared_ptr<const Trace>> lesson_traces;
  /// The problems before the window opened, one line each. The window shows them and goes on.
  std::vector<std::string> problems;
  int width = 1600;
  int height = 1000;
};

/// Opens the window and stays until it is closed; with a screenshot, draws off the screen, writes
/// the picture and returns. Throws FileError for the named trace or session (before it looks for a
/// display) and for the picture, WorkError without a display.
int run_window(const WindowOptions& options);

class Workspace;

/// Where an error ends the window: saves what it showed as last-session.json beside `recent_list`,
/// the list of recent files, and puts this session at the top of the list. Returns the sentence
/// that tells the user how to come back; empty where nothing is shown, there is no list, or the
/// session cannot be written. Does not throw.
std::string keep_last_session(const Workspace& workspace, const std::filesystem::path& recent_list);

}  // namespace kvloupe::window
