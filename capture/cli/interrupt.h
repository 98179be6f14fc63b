#pragma once

#include "analysis/progress.h"

namespace kvloupe {

/// While it lives, Ctrl-C and SIGTERM cancel `progress` instead of ending the program, so that
/// what was begun is removed. One at a time.
class InterruptGuard {
 public:
  explicit InterruptGuard(Progress& progress);
  ~InterruptGuard();
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;
};

}  // namespace kvloupe
