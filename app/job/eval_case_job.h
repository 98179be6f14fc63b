#pragma once
// One run of an evaluation captured again, with the full cache and with the policy, so that one can
// look for the cause of its answer.

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "analysis/base/core/progress.h"
#include "app/job/capture_job.h"

namespace kvloupe::job {

struct EvalCaseOptions {
  std::filesystem::path results;
  std::string results_identity;  // Evaluation::identity: rows of another content are others
  int row = 0;                   // of its runs
  std::string prompt;            // model, prompt, block and answer length of the row, in a text
  std::string policy;            // "full": that is all
  std::string budget;
  bool compact = false;          // positions
  bool context_only = false;     // the policy stops at the question
  std::string model;             // folder
  std::filesystem::path folder;  // where traces are kept; made if it does not exist
  std::string program;           // kvloupe-capture; empty: it is looked for
  bool operator==(const EvalCaseOptions&) const = default;
};

/// The run with the full cache, which generates its own answer; and the run with the policy, over
/// the same tokens, so that the two can be compared. `closed` is empty where the policy is the full
/// cache.
struct EvalCaseTraces {
  std::filesystem::path full, closed;
};

/// Where the trace of a case under a policy is kept, "full" for the full cache. The name follows
/// from the model, the prompt and what was run: all policies of a prompt share its full run.
std::filesystem::path case_trace(const EvalCaseOptions& options, const std::string& policy);

/// The forecast of a case: the size and time of each trace, and the number of traces still to make.
struct EvalCaseForecast {
  window::CaptureForecast each;
  int traces = 0;
};

/// Asks the program (foresee_capture). The trace under the policy takes about as much as the other.
EvalCaseForecast foresee_eval_case(const EvalCaseOptions& options, Progress& progress);

/// Captures the two traces, or takes those that were captured before. `progress` counts tokens.
/// Throws WorkError with the program's own last line, FileError where the folder cannot be made,
/// Cancelled.
EvalCaseTraces capture_eval_case(const EvalCaseOptions& options, Progress& progress);

/// A run of kvloupe-capture rescue on a row of an evaluation with needles: with its prompt, policy,
/// budget and block.
struct RescueOptions {
  std::string model;    // folder
  std::string results;  // of the evaluation
  int row = 0;          // of its runs
  std::string output;   // results file
  std::string program;  // kvloupe-capture; empty: it is looked for
  bool all = false;     // goes on where no set can restore the answer
  bool operator==(const RescueOptions&) const = default;
};

/// The words of the command line.
std::vector<std::string> rescue_command(const RescueOptions& options, const std::string& program);

/// How far a search is.
struct RescueProgress {
  int runs = 0;               // of the model, so far
  int most = 0;               // at most; 0: not said
  double seconds_left = 0.0;  // if all of them are needed
};

/// Runs the program to its end; `on_run` is called after each run of the model. Throws WorkError
/// with the program's own last line; Cancelled through progress, and then the results file holds
/// the runs made until then.
void run_rescue_program(const RescueOptions& options, Progress& progress,
                        const std::function<void(const RescueProgress&)>& on_run);

}  // namespace kvloupe::job
