#include "analysis/trace/trace_check.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <malloc.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <memory>
#include <new>
#include <string_view>
#include <vector>

#include "analysis/base/core/error.h"
#include "analysis/base/system/child_process.h"
#include "analysis/base/system/confinement.h"
#include "analysis/base/system/descriptor.h"
#include "analysis/base/system/output_file.h"
#include "analysis/base/system/user_files.h"
#include "analysis/base/text/text.h"
#include "analysis/trace/hdf5.h"
#include "analysis/trace/packed_dataset.h"
#include "analysis/trace/sha256.h"
#include "analysis/trace/shared_weights.h"
#include "analysis/trace/trace.h"
#include "analysis/trace/trace_datasets.h"
#include "analysis/trace/trace_layout.h"
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

namespace fs = std::filesystem;

namespace {
constexpr std::string_view kWord = "--check-trace";  // a process that checks its standard input
constexpr const char* kSelf = "/proc/self/exe";
constexpr const char* kQuickest = "kvloupe";  // starts in 20 ms; kvloupe-capture loads libtorch
constexpr int kUsage = 2;                     // exit code of a program that does not know kWord
constexpr const char* kInput = "/proc/self/fd/0";
constexpr std::string_view kGood = "good";
constexpr std::string_view kRefused = "refused: ";
constexpr std::size_t kLongestAnswer = 1000;

// A child may take this. A trace needs less than a tenth, packed or not, however long it is.
constexpr std::uint64_t kMemory = std::uint64_t{256} << 20U;        // and twice the file, up to
constexpr std::uint64_t kMostFileMemory = std::uint64_t{1} << 30U;  // this
constexpr std::uint64_t kSeconds = 10;
constexpr std::uint64_t kSlowDisk = 60;  // seconds of waiting

Confinement allowed_for(std::uint64_t bytes) {
  return {kMemory + std::min(2 * bytes, kMostFileMemory), kSeconds};
}

struct Checks {
  std::string program;  // empty: nothing is checked
  std::unique_ptr<KnownTraces> known;
};

Checks& checks() {
  static Checks checks;  // of this process, as its command line is
  return checks;
}

std::uint64_t size_of(int descriptor) {
  struct stat status {};
  return fstat(descriptor, &status) == 0 ? static_cast<std::uint64_t>(status.st_size) : 0;
}

void answer(const std::string& line) {
  std::fputs((line + "\n").c_str(), stdout);
  std::fflush(stdout);
}

/// In the child: walks through the trace on standard input, and answers with one line.
[[noreturn]] void check_standard_input() {
  // Freed memory is overwritten, so that its use shows here rather than later.
  mallopt(M_PERTURB, 0xa5);
  confine_process(allowed_for(size_of(STDIN_FILENO)));
  leave_shared_weights_alone();  // they are tried by themselves
  try {
    walk_trace(kInput);
    answer(std::string(kGood));
  } catch (const std::bad_alloc&) {
    answer(std::string(kRefused) +
           "needs far more memory than its size allows; capture or convert it again");
  } catch (const std::exception& error) {
    std::string_view text = error.what();
    const std::string name = std::string(kInput) + ": ";
    if (text.starts_with(name)) text.remove_prefix(name.size());
    answer(std::string(kRefused) + std::string(text));
  }
  _exit(0);  // nothing of a damaged file is closed
}

/// The program that checks for this one: itself, or the one beside it that starts sooner. Both
/// names stay good where an upgrade replaces or removes the file while this process runs: kSelf is
/// the file that was started, and the other is kept open.
std::string checker() {
  constexpr int kAboveStandard = 16;  // a child gets other files under the lowest numbers
  std::error_code error;
  const fs::path self = fs::read_symlink(kSelf, error);
  const fs::path quickest = self.parent_path() / kQuickest;
  if (error || self == quickest || access(quickest.c_str(), X_OK) != 0) return kSelf;
  const Descriptor file(open(quickest.c_str(), O_RDONLY | O_CLOEXEC));
  const int kept = fcntl(file.value(), F_DUPFD_CLOEXEC, kAboveStandard);
  return kept < 0 ? kSelf : "/proc/self/fd/" + std::to_string(kept);
}

std::string signal_text(int signal) {
  const char* text = strsignal(signal);
  return text == nullptr ? "signal " + std::to_string(signal) : text;
}

/// The file's fault in words; empty: none.
std::string walk_in_child(const std::string& program, int descriptor, Progress& progress) {
  std::string line;
  ChildOptions options;
  options.input = descriptor;
  options.at_most = std::chrono::seconds(2 * kSeconds + kSlowDisk);
  const auto start = [&](const std::string& checker) {
    return run_child(
        {checker, std::string(kWord)}, progress,
        [&](const std::string& text) {
          if (line.empty()) line = text;
        },
        options);
  };
  ChildResult ended = start(program);
  if (ended.exit_code == kUsage && program != kSelf) ended = start(kSelf);  // of another version
  if (ended.signal == 0 && line == kGood) return {};
  if (ended.signal == 0 && line.starts_with(kRefused))
    return in_one_line(line.substr(kRefused.size()), kLongestAnswer);
  constexpr const char* kAdvice = "it is damaged or malicious; capture or convert the trace again";
  if (ended.late || ended.signal == SIGXCPU)
    return fmt::format("cannot be opened within {} s: {}", kSeconds, kAdvice);
  const std::string how = ended.signal != 0 ? signal_text(ended.signal)
                                            : "exit code " + std::to_string(ended.exit_code);
  return fmt::format("made the HDF5 library crash in a test process ({}): {}", how, kAdvice);
}
}  // namespace

void begin_trace_checks(int argc, char** argv) {
  if (argc == 2 && argv[1] == kWord) check_standard_input();
  const fs::path cache = user_folder("XDG_CACHE_HOME", ".cache");
  set_trace_checks(checker(), cache.empty() ? fs::path() : cache / "checked-traces");
}

void set_trace_checks(const std::string& program, const fs::path& known) {
  checks().program = program;
  checks().known = program.empty() ? nullptr : std::make_unique<KnownTraces>(known);
}

void check_trace(const fs::path& path) {
  Progress progress;
  check_trace(path, progress);
}

void check_trace(const fs::path& path, Progress& progress) {
  if (checks().program.empty()) return;
  const Descriptor file(open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  struct stat status {};
  if (file.value() < 0 || fstat(file.value(), &status) != 0 || !S_ISREG(status.st_mode)) return;
  const std::string fingerprint = trace_fingerprint(file.value());
  if (checks().known->knows(fingerprint)) return;
  std::string problem;
  try {
    problem = walk_in_child(checks().program, file.value(), progress);
  } catch (const WorkError& error) {
    throw FileError(path.string(),
                    std::string("cannot be checked before it is opened: ") + error.what());
  }
  if (!problem.empty()) throw FileError(path.string(), problem);
  checks().known->add(fingerprint);
}

void remember_trace(int descriptor) {
  if (!checks().program.empty()) checks().known->add(trace_fingerprint(descriptor));
}

namespace fs = std::filesystem;
using hdf5::Dataset;

namespace {
/// Reads the first and the last number, converted as a reader converts them.
void touch(const Dataset& dataset, const std::string& path) {
  const bool real = dataset.type_class == H5T_FLOAT;
  if ((!real && dataset.type_class != H5T_INTEGER) || dataset.elements() == 0) return;
  const hid_t type = dataset.is_half ? hid_t{dataset.type}
                     : real          ? H5T_NATIVE_FLOAT
                                     : H5T_NATIVE_INT64;
  std::uint64_t number = 0;
  const hdf5::Shape one(dataset.shape.size(), 1);
  hdf5::Shape at(one.size(), 0);
  hdf5::read_part(dataset, path, type, at, one, &number);
  for (std::size_t i = 0; i < at.size(); ++i) at[i] = dataset.shape[i] - 1;
  hdf5::read_part(dataset, path, type, at, one, &number);
}
}  // namespace

void walk_trace(const fs::path& path) {
  const TraceDatasets datasets(path);
  // A file of weights is not opened as a trace: the trace that names the file determines its
  // required content (shared_weights.h).
  const bool is_weights = datasets.guarded([&] {
    return hdf5::read_text(hdf5::open_group(datasets.file(), "/"), "format").value_or("") ==
           layout::kWeightsFormat;
  });
  if (!is_weights) {
    const Trace trace(path);
    for (int layer = 0; layer < trace.model().num_layers; ++layer) trace.merges(layer);
  }
  datasets.guarded([&] {
    for (const std::string& name : hdf5::dataset_paths(datasets.file())) {
      if (layout::is_read(name)) {
        touch(datasets.dataset(name), name);
      } else {  // may hold what it likes
        hdf5::open_dataset(datasets.file(), name);
      }
    }
  });
}

}  // namespace kvloupe
