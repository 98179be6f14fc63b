#include "analysis/base/system/output_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstring>
#include <ctime>
#include <map>
#include <random>
#include <utility>

#include "analysis/base/core/error.h"
#include "analysis/base/text/text.h"

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

namespace {
constexpr int kAttempts = 100;

/// Creates a new file beside the target, of a `name` that nobody else has, and opens it for
/// writing: its descriptor; −1 and errno where that fails.
int create_beside(const std::string& target, std::string& name) {
  std::random_device random;
  for (int i = 0; i < kAttempts; ++i) {
    name = fmt::format("{}.{:08x}.tmp", target, random());
    const int descriptor = open(name.c_str(), O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0666);
    if (descriptor >= 0) return descriptor;
    if (errno != EEXIST) break;
  }
  name.clear();
  return -1;
}

constexpr std::time_t kAbandonedAfter = 3600;  // seconds without a write

std::string folder_of(const std::string& path) {
  const std::string folder = std::filesystem::path(path).parent_path().string();
  return folder.empty() ? "." : folder;
}

/// A name that create_beside() gives files beside a target of this name.
bool is_beside(const std::string& name, const std::string& target) {
  constexpr std::string_view kEnd = ".tmp";
  constexpr std::size_t kDigits = 8;
  if (name.size() != target.size() + 1 + kDigits + kEnd.size()) return false;
  const std::string digits = name.substr(target.size() + 1, kDigits);
  return name.starts_with(target + ".") && name.ends_with(kEnd) &&
         digits.find_first_not_of("0123456789abcdef") == std::string::npos;
}

/// Its writer neither holds it locked nor wrote to it lately.
bool is_abandoned(const std::string& path) {
  const int descriptor = open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  if (descriptor < 0) return false;
  struct stat status {};
  const bool abandoned = fstat(descriptor, &status) == 0 && S_ISREG(status.st_mode) &&
                         std::time(nullptr) - status.st_mtime > kAbandonedAfter &&
                         flock(descriptor, LOCK_EX | LOCK_NB) == 0;
  close(descriptor);
  return abandoned;
}

void remove_abandoned(const std::string& target) {
  const std::string name = std::filesystem::path(target).filename().string();
  std::error_code error;
  std::filesystem::directory_iterator entry(folder_of(target), error), end;
  for (; !error && entry != end; entry.increment(error)) {
    const std::string path = entry->path().string();
    if (is_beside(entry->path().filename().string(), name) && is_abandoned(path))
      std::remove(path.c_str());
  }
}

/// For writing: an existing path that is not a regular file; what others wrote to it stays. −1 and
/// errno where that fails.
int open_directly(const std::string& target) {
  return open(target.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC);
}

/// The names in a folder reach the disk. 0, or errno.
int sync_folder(const std::string& folder) {
  const int descriptor = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) return errno;
  const int error = fsync(descriptor) == 0 || errno == EINVAL ? 0 : errno;
  close(descriptor);
  return error;
}
}  // namespace

std::optional<std::string> place_of_file(const std::string& target) {
  struct stat status {};
  const bool there = stat(target.c_str(), &status) == 0;
  if (there && !S_ISREG(status.st_mode) && !S_ISDIR(status.st_mode)) return std::nullopt;
  namespace fs = std::filesystem;
  constexpr int kMostLinks = 40;
  fs::path place = target;
  std::error_code error;
  for (int links = 0; links < kMostLinks && fs::is_symlink(place, error); ++links) {
    const fs::path folder = fs::weakly_canonical(folder_of(place.string()), error);
    // The links in /proc lead to files that a process has open: others write there, too.
    if (folder.string().starts_with("/proc/")) return std::nullopt;
    const fs::path next = fs::read_symlink(place, error);
    if (error) break;
    place = folder / next;
  }
  return place.string();
}

void refuse_own_input(const std::filesystem::path& output,
                      const std::vector<std::filesystem::path>& inputs) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(output, error)) return;
  for (const std::filesystem::path& input : inputs) {
    if (!std::filesystem::equivalent(output, input, error)) continue;
    throw FileError(output.string(),
                    "is read by this command, which would write over it; give the output another "
                    "name");
  }
}

void refuse_same_outputs(const std::vector<std::string>& outputs) {
  std::map<std::filesystem::path, std::string> places;
  for (const std::string& output : outputs) {
    const std::optional<std::string> file = place_of_file(output);
    if (output.empty() || !file) continue;
    std::error_code error;  // a relative name of a file that is not there stays relative otherwise
    const std::filesystem::path whole = std::filesystem::absolute(*file);
    const std::filesystem::path place = std::filesystem::weakly_canonical(whole, error);
    const auto [found, fresh] = places.emplace(error ? whole : place, output);
    if (fresh) continue;
    throw UsageError(fmt::format("{}: is given twice{}; give each output a file of its own", output,
                                 found->second == output ? "" : ", once as " + found->second));
  }
}

UnfinishedFile::UnfinishedFile(std::string target) : target_(std::move(target)) {
  std::string beside = target_;
  if (const std::optional<std::string> place = place_of_file(target_)) {
    target_ = beside = *place;
    remove_abandoned(target_);
  } else {
    through_ = true;
    std::error_code error;
    const std::filesystem::path folder = std::filesystem::temp_directory_path(error);
    beside = ((error ? "/tmp" : folder) / "kvloupe").string();
  }
  descriptor_ = create_beside(beside, name_);
  if (descriptor_ < 0) {
    error_ = errno;
  } else {
    noted_.emplace(name_);
    // The lock tells other programs that the file has a writer. Without locks, they see only the
    // time of the last write.
    static_cast<void>(flock(descriptor_, LOCK_EX | LOCK_NB));
  }
}

UnfinishedFile::~UnfinishedFile() {
  if (!name_.empty()) std::remove(name_.c_str());
  if (descriptor_ >= 0) close(descriptor_);
}

int UnfinishedFile::put_in_place() {
  if (through_) return write_through();
  if (fsync(descriptor_) != 0 && errno != EINVAL) return errno;
  if (std::rename(name_.c_str(), target_.c_str()) != 0) return errno;
  name_.clear();
  static_cast<void>(flock(descriptor_, LOCK_UN));  // anyone may read it now
  return sync_folder(folder_of(target_));
}

int UnfinishedFile::write_through() {
  const int out = open_directly(target_);
  if (out < 0) return errno;
  std::string piece(std::size_t{1} << 20U, '\0');
  int error = 0;
  for (off_t at = 0; error == 0;) {
    const ssize_t count = pread(descriptor_, piece.data(), piece.size(), at);
    if (count == 0) break;
    if (count < 0) error = errno == EINTR ? 0 : errno;
    for (ssize_t done = 0; error == 0 && done < count;) {
      const ssize_t written =
          write(out, piece.data() + done, static_cast<std::size_t>(count - done));
      if (written < 0 && errno != EINTR) error = errno;
      if (written > 0) done += written;
    }
    if (count > 0) at += count;
  }
  if (close(out) != 0 && error == 0) error = errno;
  return error;
}

OutputFile::OutputFile(std::string target) : target_(std::move(target)) {
  if (target_ == "-") {
    file_ = stdout;
    terminal_ = isatty(STDOUT_FILENO) == 1;
    return;
  }
  std::error_code ignored;
  if (std::filesystem::is_directory(target_, ignored)) {
    throw FileError(target_, "is a folder; give the name of a file");
  }
  int descriptor = -1;
  if (place_of_file(target_)) {
    unfinished_ = std::make_unique<UnfinishedFile>(target_);
    if (unfinished_->error() != 0) fail("cannot be written", unfinished_->error());
    descriptor = fcntl(unfinished_->descriptor(), F_DUPFD_CLOEXEC, 0);
  } else {
    descriptor = open_directly(target_);
  }
  file_ = descriptor < 0 ? nullptr : fdopen(descriptor, "wb");
  if (file_ == nullptr) {
    const int error = errno;
    if (descriptor >= 0) close(descriptor);
    fail("cannot be written", error);
  }
}

OutputFile::~OutputFile() {
  if (file_ != nullptr && file_ != stdout) std::fclose(file_);
}

void OutputFile::write(std::string_view text) {
  const std::string shown = terminal_ ? in_lines(text) : std::string();
  if (terminal_) text = shown;
  if (std::fwrite(text.data(), 1, text.size(), file_) != text.size()) {
    fail("cannot be written", errno);
  }
}

void OutputFile::finish() {
  if (std::fflush(file_) != 0) fail("cannot be written", errno);
  if (file_ == stdout) return;
  if (std::fclose(std::exchange(file_, nullptr)) != 0) fail("cannot be written", errno);
  if (!unfinished_) return;
  if (const int error = unfinished_->put_in_place(); error != 0) fail("cannot be written", error);
}

void OutputFile::fail(const std::string& doing, int error) const {
  throw FileError(target_ == "-" ? "standard output" : target_,
                  doing + " (" + std::strerror(error) +
                      "); check that its folder exists, is writable and has free space");
}

void write_whole_file(const std::filesystem::path& path, std::string_view bytes) {
  OutputFile file(path.string());
  file.write(bytes);
  file.finish();
}

}  // namespace kvloupe
