#pragma once

#include <ctime>
#include <fstream>
#include <string>

namespace kvloupe {

/// Of this process so far, over all threads.
inline double processor_seconds() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
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
