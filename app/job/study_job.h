#pragma once
// A study that is made in the window and run by a child process.

#include <chrono>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "analysis/base/core/progress.h"

namespace kvloupe::job {

/// Which policies, at which budgets, on which traces or prompts.
struct StudyOptions {
  bool replays = true;     // replays of traces
  bool in_model = false;   // runs in the model, on prompts
  std::string traces;      // of replays: files or patterns such as traces/*.h5, between commas
  std::string model;       // of runs: a folder or GGUF file
  std::string prompts;     // of runs: a file, or a folder of texts with answers (docs/studies.md)
  bool chat = false;       // of runs: the prompts are messages in the model's chat template
  int answer_tokens = 16;  // of runs: the most that the model says
  bool context_only = false;  // of runs: the policy stops before the question
  std::string policies;       // specs, separated by commas
  std::string budgets;        // separated by commas
  std::string block = "128";  // tokens or "all", between commas; or "capture": each trace's own
  std::string results;        // the results file; the study file stands beside it
  std::string program;        // empty: beside this program, else in $PATH
  bool operator==(const StudyOptions&) const = default;
};

/// One line that says why it cannot start; empty if no problem is known.
std::string study_problem(const StudyOptions& options);
/// The study file: the results' name with the ending .json.
std::string study_file(const StudyOptions& options);
/// Its content. Throws UsageError for an invalid policy or budget.
std::string study_text(const StudyOptions& options);
/// "24 traces × 5 policies × 3 budgets", with the present matches of the patterns; says so if
/// nothing matches. Looks at the disk.
std::string study_size(const StudyOptions& options);
/// The words of the command line for the replays, or for the runs in the model.
std::vector<std::string> study_command(const StudyOptions& options, bool in_model,
                                       const std::string& program);
/// The texts of a folder (*.txt, *.md) as JSON lines of prompts with answers: a line @@needle,
/// @@question or @@answer starts that part, and each line of the answer is right. Throws WorkError
/// for a text without an answer, or that is not UTF-8.
std::string prompt_lines(const std::filesystem::path& folder);
/// As StudyOptions::traces: the traces beside this one, itself among them, that a mean may take
/// together: of the same model in the same precision, with the full cache. Opens them all.
std::string traces_alike(const std::filesystem::path& trace, Progress& progress);

/// How far a study is: its replays, then its runs.
struct StudyProgress {
  int done = 0, failed = 0;                     // items, those of earlier runs among them
  int items = 0;                                // 0: not known yet
  int done_before = -1;                         // when this run began
  int part = 0, parts = 1;                      // replays and runs
  std::chrono::steady_clock::time_point began;  // this part
  std::string line;                             // what became of the last item
  double fraction() const {
    return (part + (items > 0 ? static_cast<double>(done + failed) / items : 0.0)) / parts;
  }
};

/// Applies one line of `--progress json`. Other lines are ignored.
void read_study_line(const std::string& line, StudyProgress& progress);

/// Writes the study file, unless it says the same already, and runs the study to its end; `publish`
/// is called with every change. Items that are done are not computed again. Throws WorkError with
/// the program's own last line, or if the study file describes another study. Throws Cancelled
/// through progress; the results file then holds the items that are done.
StudyProgress run_study_program(const StudyOptions& options, Progress& progress,
                                const std::function<void(const StudyProgress&)>& publish);

}  // namespace kvloupe::job
