#pragma once
// The failures that kvloupe knows. The code that finds a failure throws it; exactly one place per
// program turns it into one line and an exit code (see report_failure in
// analysis/base/core/error.h).

#include <stdexcept>
#include <string>
#include <string_view>

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

/// Call inside a catch-all handler: writes one line about the exception in flight to stderr and
/// returns the exit code: 2 for UsageError, 1 for everything else.
int report_failure(std::string_view program);

/// Call at the end with the exit code: 1 in place of 0, and a line on stderr, where standard output
/// did not take all that was printed, as on a full disk.
int end_output(std::string_view program, int code);

}  // namespace kvloupe
