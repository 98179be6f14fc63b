#pragma once

#include <sys/types.h>

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "analysis/base/core/progress.h"

namespace kvloupe {

/// How a child process ended.
struct ChildResult {
  int exit_code = 0;       // -1 if a signal ended it
  int signal = 0;          // 0: none
  bool late = false;       // it was ended because its time was over
  std::string last_error;  // the last line it wrote to standard error
};

/// A program that runs beside this one, without a shell. It is ended and reaped whatever happens.
class ChildProcess {
 public:
  /// How a child may outlive what started it. `of_thread`: it gets SIGTERM when the thread that
  /// starts it ends, and so with this process; `own`: it ends by itself.
  enum class Life { of_thread, own };
  /// Descriptors of this process, each with its number in the child; −1: /dev/null. The child does
  /// not inherit other descriptors that close on exec.
  using Descriptors = std::vector<std::pair<int, int>>;

  /// Safe beside other threads: between its start and the other program it only makes system calls,
  /// and no handler of fork() runs, such as OpenBLAS's. A Ctrl-C in the terminal does not reach it.
  /// The program is looked for in $PATH. Throws WorkError if it cannot be started.
  ChildProcess(const std::vector<std::string>& words, const Descriptors& descriptors, Life life);
  ~ChildProcess();  // SIGKILL
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  void stop(int signal) const;
  /// How it ended; nothing while it runs.
  std::optional<ChildResult> ended();

 private:
  pid_t id_ = -1;
};

struct ChildOptions {
  int input = -1;                       // its standard input; -1: /dev/null
  std::chrono::milliseconds at_most{};  // ended (SIGKILL) when it runs longer; 0: no limit
};

/// Runs a program without a shell and waits for it. `on_line` is called for every line of its
/// standard output, without the line's end, as it comes; lines beyond 1 MB are cut. Cancelling the
/// progress asks the child to stop (SIGTERM), ends it after three seconds if it has not stopped,
/// and throws Cancelled. The child also ends when this process ends, in any way. Throws WorkError
/// as ChildProcess does.
ChildResult run_child(const std::vector<std::string>& words, Progress& progress,
                      const std::function<void(const std::string&)>& on_line,
                      const ChildOptions& options = {});

/// A program of this project: in the folder of this one, else in one of the folders of $PATH; empty
/// if it is in neither.
std::string find_program(const std::string& name);

}  // namespace kvloupe
