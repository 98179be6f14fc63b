#pragma once
// The failures that kvloupe knows. The code that finds a failure throws it; exactly one place per
// program turns it into one line and an exit code (see report_failure in analysis/failure.h).

#include <stdexcept>
#include <string>

namespace kvloupe {

/// The command line itself is wrong: a spec, a budget, a figure name, or a layer, head, step or
/// token that the trace does not have. Exit code 2.
struct UsageError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// A problem with a named file or folder: missing, unreadable, truncated, foreign, from a newer
/// version, unwritable, disk full. what() reads "PATH: what is wrong; what to do". Exit code 1.
struct FileError : std::runtime_error {
  FileError(std::string path_, const std::string& problem)
      : std::runtime_error(path_ + ": " + problem), path(std::move(path_)) {}
  std::string path;
};

/// A failure during the work: states that are not numbers, out of memory, a policy that cannot be
/// applied. Exit code 1.
struct WorkError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Thrown from inside a computation whose caller asked it to stop. Never shown as a failure.
struct Cancelled : std::runtime_error {
  Cancelled() : std::runtime_error("cancelled") {}
};

}  // namespace kvloupe
