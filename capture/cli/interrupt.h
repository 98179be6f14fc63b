#pragma once

#include "analysis/progress.h"

namespace kvloupe {

/// While an object of this class exists, Ctrl-C and SIGTERM cancel `progress` instead of ending the
/// program, so that incomplete output is removed. Only one at a time.
class InterruptGuard {
 public:
  explicit InterruptGuard(Progress& progress);
  ~InterruptGuard();
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;
};

}  // namespace kvloupe
