#include "analysis/engine/calls.h"

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstring>
#include <exception>
#include <new>
#include <string>

#include "analysis/base/core/error.h"
#include "version.h"

namespace kvloupe::engine {

void say(char* error, std::string_view text) {
  if (error == nullptr) return;
  constexpr std::string_view kMore = "...";
  constexpr std::size_t kRoom = KVLOUPE_ENGINE_ERROR_BYTES - 1;
  const bool cut = text.size() > kRoom;
  std::size_t size = cut ? kRoom - kMore.size() : text.size();
  const auto continues = [&](std::size_t at) {
    return (static_cast<unsigned char>(text[at]) & 0xC0U) == 0x80U;  // a later byte of a character
  };
  while (cut && size > 0 && continues(size)) --size;
  std::memcpy(error, text.data(), size);
  if (cut) {
    std::memcpy(error + size, kMore.data(), kMore.size());
    size += kMore.size();
  }
  std::replace_if(
      error, error + size, [](char c) { return c == '\n' || c == '\r' || c == '\0'; }, ' ');
  error[size] = '\0';
}

int32_t failure(char* error) {
  try {
    throw;
  } catch (const UsageError& problem) {
    say(error, problem.what());
    return KVLOUPE_ENGINE_MISUSED;
  } catch (const Cancelled&) {
    say(error, "cancelled");
    return KVLOUPE_ENGINE_CANCELLED;
  } catch (const std::bad_alloc&) {
    say(error, "out of memory; try fewer tokens, layers or a smaller block");
  } catch (const std::exception& problem) {
    say(error, problem.what());
  } catch (...) {
    say(error, "an unknown failure inside the engine; please report it");
  }
  return KVLOUPE_ENGINE_FAILED;
}

void require(const void* pointer, const char* what) {
  if (pointer == nullptr) throw UsageError(std::string(what) + ": is NULL; give one");
}

void require_count(int64_t count, const char* what) {
  if (count < 0) throw UsageError(std::string(what) + ": their number is negative");
}

void require_size(uint32_t size, std::size_t wanted, const char* what) {
  if (size == wanted) return;
  throw UsageError(std::string(what) + ": has the size " + std::to_string(size) + " and not " +
                   std::to_string(wanted) + "; set `size`, and use the header of this library");
}

}  // namespace kvloupe::engine

int32_t kvloupe_engine_interface(void) { return KVLOUPE_ENGINE_INTERFACE; }

const char* kvloupe_engine_version(void) { return KVLOUPE_VERSION; }

kvloupe_engine_work* kvloupe_engine_work_create(void) {
  return new (std::nothrow) kvloupe_engine_work;
}

void kvloupe_engine_work_destroy(kvloupe_engine_work* work) { delete work; }

void kvloupe_engine_work_stop(kvloupe_engine_work* work) {
  if (work != nullptr) work->progress.cancel();
}

double kvloupe_engine_work_fraction(const kvloupe_engine_work* work) {
  return work == nullptr ? 0.0 : std::clamp(work->progress.fraction(), 0.0, 1.0);
}

// Ctrl-C while a call works: a handler in front of the host program's own, which may act only when
// the call has returned.

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
