#pragma once

#include <functional>
#include <string>
#include <vector>

#include "analysis/progress.h"

namespace kvloupe::job {

/// A run of kvloupe-capture rescue on a row of an evaluation with needles: with its prompt, policy,
/// budget and block.
struct RescueOptions {
  std::string model;    // folder
  std::string results;  // of the evaluation
  int row = 0;          // of its runs
  std::string output;   // results file
  std::string program;  // kvloupe-capture; empty: it is looked for
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
