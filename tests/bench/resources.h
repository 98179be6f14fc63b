#pragma once

#include <algorithm>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>

namespace kvloupe {

/// Processor time of this process so far, over all threads.
inline double processor_seconds() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

/// Processor time of this process's busiest thread: the least wall time on a machine with idle
/// cores.
inline double busiest_thread_seconds() {
  double most = 0.0;
  std::error_code gone;  // a thread may end meanwhile
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task", gone)) {
    double nanoseconds = 0.0;
    std::ifstream(task.path() / "schedstat") >> nanoseconds;
    most = std::max(most, 1e-9 * nanoseconds);
  }
  return most;
}

/// Peak of the resident memory, MB.
inline long peak_memory() {
  std::ifstream status("/proc/self/status");
  std::string word;
  long kilobytes = 0;
  while (status >> word) {
    if (word == "VmHWM:") status >> kilobytes;
  }
  return kilobytes / 1024;
}

}  // namespace kvloupe
