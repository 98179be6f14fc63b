#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "analysis/base/core/progress.h"
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
                                    // them given, so that two runs read the same
  bool chat = false;                // of a file or text: a message in the model's chat template
  bool own_answer = false;          // beside them, the model writes its own
  int block = 128;                  // 0, of Prompt::results: the evaluation's
  bool context_only = false;        // of a closed loop: the policy stops at the question
  int generate = 0;                 // 0, of Prompt::results: the length of its answers
  std::string policy = kFullCache;  // anything else: closed loop
  std::string budget;
  bool compact = false;         // positions, of a closed loop
  std::string dtype;            // empty: the program's choice
  bool shared_weights = false;  // the trace takes W_O and the output head from the cache folder
  std::string output;
  std::string program;  // kvloupe-capture; empty: beside this program, else in $PATH

  bool closed_loop() const { return policy != kFullCache; }
};

/// The state of a run so far.
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
  std::string own_answer;         // of the model, where another one was given to it; the same
  double fraction() const { return total > 0 ? static_cast<double>(done) / total : 0.0; }
};

/// The forecast bytes and time of a run, made before it starts.
struct CaptureForecast {
  std::uint64_t bytes = 0;
  std::optional<double> seconds;  // not known before the first run of a model
  std::string size;               // in one line, by parts
  std::string time;               // in words
  std::string dtype, store;  // "bf16", "f16": the model computes in it, states are stored as it
};

/// "the trace will take …; computed in bf16, stored as float16; about 25 s, …".
std::string forecast_text(const CaptureForecast& forecast);

/// "bf16, stored as float16", from the words of a forecast or a trace. Each may be empty.
std::string precision_text(const std::string& dtype, const std::string& store);

/// Whether the prompt asks: a line @@question, or a last line that ends with a question mark. Reads
/// the first 4 MB of a prompt file.
bool asks_a_question(const CaptureOptions& options);

/// One line that says why a run cannot start; empty if no problem is known.
std::string capture_problem(const CaptureOptions& options);

/// The words of the command line.
std::vector<std::string> capture_command(const CaptureOptions& options, const std::string& program);

/// Asks the program for the forecast of a run (run --dry-run). Throws as run_capture_program().
CaptureForecast foresee_capture(const CaptureOptions& options, Progress& progress);

/// Applies one line of `--progress json`. Other lines are ignored.
void read_progress_line(const std::string& line, CaptureState& state);

/// Runs the program to its end; `publish` is called with every change. Throws WorkError with the
/// program's own last line if it fails, or if there is no program; Cancelled through progress.
CaptureState run_capture_program(const CaptureOptions& options, Progress& progress,
                                 const std::function<void(const CaptureState&)>& publish);

}  // namespace kvloupe::window
