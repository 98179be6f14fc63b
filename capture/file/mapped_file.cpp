#include "capture/file/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <string>

#include "analysis/base/core/error.h"
#include "analysis/base/system/output_file.h"

namespace kvloupe {

/// An entry of the list that the signal handler reads while other threads map files. Entries are
/// never freed; one whose file was unmapped is used again.
struct MappedFile::Entry {
  std::atomic<const std::byte*> begin{nullptr};
  std::atomic<std::uint64_t> size{0};  // 0: not in use
  char path[512] = {};
  Entry* next = nullptr;

  static std::atomic<Entry*>& first() {
    static std::atomic<Entry*> first{nullptr};
    return first;
  }
  static Entry* take(const std::byte* begin, std::uint64_t size, const std::string& path);
  static void report(int signal, siginfo_t* info, void*);
};

namespace {
std::atomic<const char*> program_name{nullptr};

void say(const char* text) { static_cast<void>(!write(STDERR_FILENO, text, std::strlen(text))); }
}  // namespace

MappedFile::Entry* MappedFile::Entry::take(const std::byte* begin, std::uint64_t size,
                                           const std::string& path) {
  Entry* entry = first();
  std::uint64_t free = 0;
  while (entry != nullptr && !entry->size.compare_exchange_strong(free, 1)) {
    free = 0;
    entry = entry->next;
  }
  const bool fresh = entry == nullptr;
  if (fresh) entry = new Entry;
  path.copy(entry->path, sizeof entry->path - 1);
  entry->path[std::min(path.size(), sizeof entry->path - 1)] = '\0';
  entry->begin = begin;
  entry->size = size;
  if (fresh) {
    entry->next = first();
    while (!first().compare_exchange_weak(entry->next, entry)) {
    }
  }
  return entry;
}

void MappedFile::Entry::report(int signal, siginfo_t* info, void*) {
  const auto* at = static_cast<const std::byte*>(info->si_addr);
  for (const Entry* entry = first(); entry != nullptr; entry = entry->next) {
    const std::byte* begin = entry->begin;
    if (at < begin || at >= begin + (entry->size + 4095) / 4096 * 4096) continue;
    say(program_name);
    say(": ");
    say(entry->path);
    say(": became shorter while it was read, or its disk fails; try again once the file is "
        "whole\n");
    remove_unfinished_files();
    _exit(1);
  }
  std::signal(signal, SIG_DFL);  // not ours: it comes again, and ends the program as ever
}

MappedFile::MappedFile(const std::filesystem::path& path) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  const auto fail = [&](const std::string& problem) {
    if (descriptor >= 0) ::close(descriptor);
    throw FileError(path.string(), problem);
  };
  struct stat status {};
  if (descriptor < 0 || ::fstat(descriptor, &status) != 0)
    fail(std::string("cannot be read: ") + std::strerror(errno));
  if (!S_ISREG(status.st_mode)) fail("is not a file");
  size_ = static_cast<std::uint64_t>(status.st_size);
  if (size_ > 0) {  // nothing cannot be mapped
    void* mapped = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, descriptor, 0);
    if (mapped == MAP_FAILED) fail(std::string("cannot be mapped: ") + std::strerror(errno));
    data_ = static_cast<const std::byte*>(mapped);
    entry_ = Entry::take(data_, size_, path.string());
  }
  ::close(descriptor);
}

MappedFile::~MappedFile() {
  if (size_ == 0) return;
  entry_->size = 0;
  ::munmap(const_cast<std::byte*>(data_), size_);
}

void end_on_lost_pages(const char* program) {
  program_name = program;
  struct sigaction action {};
  action.sa_sigaction = MappedFile::Entry::report;
  action.sa_flags = SA_SIGINFO;
  sigemptyset(&action.sa_mask);
  sigaction(SIGBUS, &action, nullptr);
}

}  // namespace kvloupe
