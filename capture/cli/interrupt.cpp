#include "capture/cli/interrupt.h"

#include <array>
#include <atomic>
#include <csignal>

namespace kvloupe {

namespace {

constexpr std::array kSignals{SIGINT, SIGTERM, SIGHUP};

// A signal handler reaches nothing but what has static storage.
std::atomic<Progress*> interrupted_progress{nullptr};

void cancel_progress(int) {
  if (Progress* progress = interrupted_progress.load()) progress->cancel();
}

void handle_all(void (*handler)(int)) {
  struct sigaction action {};
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  for (const int signal : kSignals) sigaction(signal, &action, nullptr);
}

}  // namespace

InterruptGuard::InterruptGuard(Progress& progress) {
  interrupted_progress = &progress;
  handle_all(cancel_progress);
}

InterruptGuard::~InterruptGuard() {
  handle_all(SIG_DFL);
  interrupted_progress = nullptr;
}

}  // namespace kvloupe
