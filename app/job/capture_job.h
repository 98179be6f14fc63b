#pragma once

#include <functional>
#include <string>
#include <vector>

#include "analysis/progress.h"
#include "analysis/trace/model_info.h"

namespace kvloupe::window {

/// The options of a run of kvloupe-capture.
struct CaptureOptions {
  enum class Prompt { file, text, trace, results };
  std::string model;  // folder
  Prompt prompt = Prompt::file;
  std::string file;                 // of Prompt::file; of Prompt::results
  int row = 0;                      // of Prompt::results: which of its runs
  std::string text;                 // of Prompt::text
  std::string from;                 // of Prompt::trace: its tokens with their segments, all of
                                    // them forced, so that two runs read the same
  int block = 128;                  // 0, of Prompt::results: the evaluation's
  bool context_only = false;        // of a closed loop: the policy stops at the question
  int generate = 0;                 // 0, of Prompt::results: the length of its answers
  std::string policy = kFullCache;  // anything else: closed loop
  std::string budget;
  bool compact = false;  // positions, of a closed loop
  std::string dtype;     // empty: the program's choice
  std::string output;
  std::string program;  // kvloupe-capture; empty: beside this program, else in $PATH

  bool closed_loop() const { return policy != kFullCache; }
};

/// What is known about a run so far.
struct CaptureState {
  int done = 0;  // tokens
  int prompt_length = 0;
  int total = 0;
  double tokens_per_second = 0.0;
  double seconds_left = -1.0;  // below 0: not known
  std::string size;            // what the trace will take, in one line; empty: not told yet
  std::vector<std::string> notes;
  std::string trace;              // written; empty until then
  std::string model_fingerprint;  // told with the trace
  double fraction() const { return total > 0 ? static_cast<double>(done) / total : 0.0; }
};

/// One line that says why a run cannot start; empty if no problem is known.
std::string capture_problem(const CaptureOptions& options);

/// The words of the command line.
std::vector<std::string> capture_command(const CaptureOptions& options, const std::string& program);

/// Applies one line of `--progress json`. Other lines are ignored.
void read_progress_line(const std::string& line, CaptureState& state);

/// Runs the program to its end; `publish` is called with every change. Throws WorkError with the
/// program's own last line if it fails, or if there is no program; Cancelled through progress.
CaptureState run_capture_program(const CaptureOptions& options, Progress& progress,
                                 const std::function<void(const CaptureState&)>& publish);

}  // namespace kvloupe::window
