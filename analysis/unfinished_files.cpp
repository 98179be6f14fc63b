#include "analysis/unfinished_files.h"

#include <unistd.h>

#include <array>
#include <atomic>
#include <climits>
#include <csignal>

namespace kvloupe {

/// Entries are never freed, since a signal handler may walk them at any moment; an unused one is
/// taken again.
struct UnfinishedName::Entry {
  enum Use { kUnused, kTaken, kNamed };
  std::atomic<int> use{kTaken};
  std::atomic<pid_t> process{0};
  char path[PATH_MAX] = {};
  Entry* next = nullptr;

  static std::atomic<Entry*>& first() {
    static std::atomic<Entry*> first{nullptr};
    return first;
  }
};

UnfinishedName::UnfinishedName(const std::string& path) : entry_(Entry::first()) {
  int unused = Entry::kUnused;
  while (entry_ != nullptr && !entry_->use.compare_exchange_strong(unused, Entry::kTaken)) {
    unused = Entry::kUnused;
    entry_ = entry_->next;
  }
  const bool fresh = entry_ == nullptr;
  if (fresh) entry_ = new Entry;
  // The system opens no longer path than this, so none is cut.
  const std::size_t size = path.copy(entry_->path, sizeof entry_->path - 1);
  entry_->path[size] = '\0';
  entry_->process = getpid();
  entry_->use = Entry::kNamed;
  if (!fresh) return;
  entry_->next = Entry::first();
  while (!Entry::first().compare_exchange_weak(entry_->next, entry_)) {
  }
}

UnfinishedName::~UnfinishedName() { entry_->use = Entry::kUnused; }

void remove_unfinished_files() {
  using Entry = UnfinishedName::Entry;
  const pid_t process = getpid();
  for (const Entry* entry = Entry::first(); entry != nullptr; entry = entry->next) {
    if (entry->use == Entry::kNamed && entry->process == process) unlink(entry->path);
  }
}

void remove_unfinished_files_at_signals() {
  struct sigaction action {};
  action.sa_handler = [](int signal) {
    remove_unfinished_files();
    raise(signal);  // ends the program once this handler returns
  };
  action.sa_flags = static_cast<int>(SA_RESETHAND);
  sigemptyset(&action.sa_mask);
  for (const int signal : std::array{SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction before {};
    sigaction(signal, nullptr, &before);
    // A signal that is ignored (nohup) stays ignored.
    if (before.sa_handler == SIG_DFL) sigaction(signal, &action, nullptr);
  }
}

}  // namespace kvloupe
