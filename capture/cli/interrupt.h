#pragma once

#include <array>
#include <csignal>

#include "analysis/base/core/progress.h"

namespace kvloupe {

/// While an object of this class exists, Ctrl C, SIGTERM and SIGHUP cancel `progress` instead of
/// ending the program, so that incomplete output is removed. Only one at a time.
class InterruptGuard {
 public:
  explicit InterruptGuard(Progress& progress);
  ~InterruptGuard();
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;

 private:
  static constexpr std::array kSignals{SIGINT, SIGTERM, SIGHUP};
  std::array<struct sigaction, kSignals.size()> before_{};
};

}  // namespace kvloupe
