#include "analysis/trace/trace_check.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <malloc.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <memory>
#include <new>
#include <string_view>

#include "analysis/child_process.h"
#include "analysis/confinement.h"
#include "analysis/descriptor.h"
#include "analysis/error.h"
#include "analysis/text.h"
#include "analysis/trace/hdf5.h"
#include "analysis/trace/known_traces.h"
#include "analysis/trace/packed_dataset.h"
#include "analysis/trace/shared_weights.h"
#include "analysis/trace/trace.h"
#include "analysis/trace/trace_datasets.h"
#include "analysis/trace/trace_layout.h"
#include "analysis/user_files.h"

namespace kvloupe {

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
