#include "capture/cli/interrupt.h"

#include <atomic>

namespace kvloupe {

namespace {

// Static, because a signal handler reaches nothing else.
std::atomic<Progress*> interrupted_progress{nullptr};

void cancel_progress(int) {
  if (Progress* progress = interrupted_progress.load()) progress->cancel();
}

}  // namespace

InterruptGuard::InterruptGuard(Progress& progress) {
  interrupted_progress = &progress;
  struct sigaction action {};
  action.sa_handler = cancel_progress;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  for (std::size_t i = 0; i < kSignals.size(); ++i) sigaction(kSignals[i], &action, &before_[i]);
}

InterruptGuard::~InterruptGuard() {
  for (std::size_t i = 0; i < kSignals.size(); ++i) sigaction(kSignals[i], &before_[i], nullptr);
  interrupted_progress = nullptr;
}

}  // namespace kvloupe
