#include "analysis/trace/known_traces.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <vector>

#include "analysis/error.h"
#include "analysis/output_file.h"
#include "analysis/trace/hdf5.h"
#include "analysis/trace/sha256.h"
#include "version.h"

namespace kvloupe {

namespace fs = std::filesystem;

namespace {
constexpr std::size_t kHashedEnd = 64 << 10;  // bytes of the file's beginning and end
constexpr std::size_t kMostBytes = 256 << 10;

/// Up to `count` bytes from `offset` on; false where reading fails.
bool add_bytes(int descriptor, std::uint64_t offset, std::size_t count, Sha256& hash) {
  std::vector<char> bytes(count);
  std::size_t done = 0;
  while (done < count) {
    const ssize_t got =
        pread(descriptor, bytes.data() + done, count - done, static_cast<off_t>(offset + done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return false;
    if (got == 0) break;
    done += static_cast<std::size_t>(got);
  }
  hash.add(bytes.data(), done);
  return true;
}

std::string hdf5_version() {
  const hdf5::Lock lock;
  unsigned major = 0, minor = 0, release = 0;
  H5get_libversion(&major, &minor, &release);
  return fmt::format("{}.{}.{}", major, minor, release);
}

/// The list's text; empty where there is none that this user alone can write.
std::string read_list(const fs::path& list) {
  const int descriptor = open(list.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  if (descriptor < 0) return {};
  struct stat status {};
  std::string text;
  if (fstat(descriptor, &status) == 0 && S_ISREG(status.st_mode) && status.st_uid == geteuid() &&
      (status.st_mode & S_IWOTH) == 0) {
    text.resize(std::min<std::size_t>(static_cast<std::size_t>(status.st_size), 2 * kMostBytes));
    const ssize_t got = read(descriptor, text.data(), text.size());
    text.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
  }
  close(descriptor);
  return text;
}

bool has_line(const std::string& text, const std::string& line) {
  for (std::size_t at = text.find(line); at != std::string::npos; at = text.find(line, at + 1)) {
    const std::size_t end = at + line.size();
    if ((at == 0 || text[at - 1] == '\n') && end < text.size() && text[end] == '\n') return true;
  }
  return false;
}
}  // namespace

std::string trace_fingerprint(int descriptor) {
  struct stat status {};
  if (fstat(descriptor, &status) != 0) return {};
  try {
    Sha256 hash;
    hash.add(fmt::format("kvloupe {} HDF5 {} {} {} {} {}.{} {}.{}\n", KVLOUPE_VERSION,
                         hdf5_version(), status.st_dev, status.st_ino, status.st_size,
                         status.st_mtim.tv_sec, status.st_mtim.tv_nsec, status.st_ctim.tv_sec,
                         status.st_ctim.tv_nsec));
    const auto size = static_cast<std::uint64_t>(status.st_size);
    if (!add_bytes(descriptor, 0, kHashedEnd, hash)) return {};
    if (!add_bytes(descriptor, size > kHashedEnd ? size - kHashedEnd : 0, kHashedEnd, hash))
      return {};
    return hash.hex();
  } catch (const WorkError&) {
    return {};
  }
}

bool KnownTraces::knows(const std::string& fingerprint) {
  if (fingerprint.empty()) return false;
  const std::scoped_lock lock(mutex_);
  if (known_.contains(fingerprint)) return true;
  if (list_.empty() || !has_line(read_list(list_), fingerprint)) return false;
  known_.insert(fingerprint);
  return true;
}

void KnownTraces::add(const std::string& fingerprint) {
  if (fingerprint.empty()) return;
  const std::scoped_lock lock(mutex_);
  if (!known_.insert(fingerprint).second || list_.empty()) return;
  std::error_code ignored;
  fs::create_directories(list_.parent_path(), ignored);
  struct stat status {};
  if (lstat(list_.c_str(), &status) == 0 && static_cast<std::size_t>(status.st_size) > kMostBytes) {
    // The newer half stays, from the beginning of a line on.
    std::string text = read_list(list_);
    text.erase(0, text.size() - std::min(text.size(), kMostBytes / 2));
    text.erase(0, std::min(text.find('\n'), text.size() - 1) + (text.empty() ? 0 : 1));
    try {
      write_whole_file(list_, text);
    } catch (const FileError&) {
      return;
    }
  }
  const int descriptor = open(
      list_.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600);
  if (descriptor < 0) return;
  // The line's end comes first, too: an unfinished line of a killed writer does not damage other
  // lines.
  const std::string line = "\n" + fingerprint + "\n";
  static_cast<void>(!write(descriptor, line.data(), line.size()));
  close(descriptor);
}

}  // namespace kvloupe
