#pragma once

#include <sys/resource.h>

namespace kvloupe::test {

/// The most memory that this process has held, in MiB.
inline double peak_memory_mb() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1024.0;
}

}  // namespace kvloupe::test
