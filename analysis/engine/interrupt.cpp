// Ctrl-C while a call works: a handler in front of the host program's own, which may act only when
// the call has returned.

#include <csignal>

#include <atomic>

#include "analysis/engine/calls.h"

namespace {
// Read inside a signal handler.
std::atomic<kvloupe::Progress*> interruptible = nullptr;
struct sigaction host_action = {};
static_assert(std::atomic<kvloupe::Progress*>::is_always_lock_free);

bool is_function(const struct sigaction& action) {
  return (action.sa_flags & SA_SIGINFO) != 0 ||
         (action.sa_handler != SIG_DFL && action.sa_handler != SIG_IGN);
}

void stop_and_pass_on(int signal, siginfo_t* about, void* context) {
  kvloupe::Progress* progress = interruptible;
  if (progress != nullptr) progress->cancel();
  if ((host_action.sa_flags & SA_SIGINFO) != 0) {
    host_action.sa_sigaction(signal, about, context);
  } else if (is_function(host_action)) {
    host_action.sa_handler(signal);
  }
}
}  // namespace

void kvloupe_engine_work_stop_by_interrupt(kvloupe_engine_work* work, int32_t on) {
  if (work == nullptr) return;
  kvloupe::Progress* none = nullptr;
  if (on == 0) {
    if (interruptible != &work->progress) return;
    sigaction(SIGINT, &host_action, nullptr);
    interruptible = nullptr;
    return;
  }
  struct sigaction action = {};
  if (sigaction(SIGINT, nullptr, &action) != 0 || !is_function(action)) return;
  if (!interruptible.compare_exchange_strong(none, &work->progress)) return;
  host_action = action;
  action.sa_sigaction = stop_and_pass_on;
  action.sa_flags |= SA_SIGINFO;
  if (sigaction(SIGINT, &action, nullptr) != 0) interruptible = nullptr;
}
