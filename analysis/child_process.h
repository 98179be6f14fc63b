#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "analysis/progress.h"

namespace kvloupe {

/// How a child process ended.
struct ChildResult {
  int exit_code = 0;       // -1 if a signal ended it
  int signal = 0;          // 0: none
  bool late = false;       // it was ended because its time was over
  std::string last_error;  // the last line it wrote to standard error
};

struct ChildOptions {
  int input = -1;                       // its standard input; -1: /dev/null
  std::chrono::milliseconds at_most{};  // ended (SIGKILL) when it runs longer; 0: no limit
};

/// Runs a program without a shell and waits for it. `on_line` is called for every line of its
/// standard output, without the line's end, as it comes; lines beyond 1 MB are cut. Cancelling the
/// progress asks the child to stop (SIGTERM), ends it after three seconds if it has not stopped,
/// and throws Cancelled. The child also ends when this process ends, in any way. Safe beside other
/// threads: between its start and the other program it only makes system calls, and no handler of
/// fork() runs, such as OpenBLAS's. Throws WorkError if the program cannot be started.
ChildResult run_child(const std::vector<std::string>& words, Progress& progress,
                      const std::function<void(const std::string&)>& on_line,
                      const ChildOptions& options = {});

/// A program of this project: in the folder of this one, else in one of the folders of $PATH; empty
/// if it is in neither.
std::string find_program(const std::string& name);

}  // namespace kvloupe
