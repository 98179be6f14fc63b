#include "capture/run/compute.h"

#include <ATen/Parallel.h>
#include <cblas.h>
#include <tbb/global_control.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <limits>
#include <set>
#include <sstream>
#if defined(__x86_64__)
#include <cpuid.h>
#include <sched.h>
#endif

#include "analysis/base/core/error.h"
#include "analysis/base/system/blas.h"

namespace kvloupe {

namespace {

/// Whether the processor has AMX for bf16, and the operating system lets programs use its tiles.
bool has_bf16_tiles() {
#if defined(__x86_64__)
  constexpr unsigned kTiles = 3U << 17U;  // of XCR0
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid_count(1, 0, &a, &b, &c, &d) == 0 || (c & (1U << 27U)) == 0) return false;
  unsigned enabled = 0, high = 0;
  __asm__("xgetbv" : "=a"(enabled), "=d"(high) : "c"(0));
  return (enabled & kTiles) == kTiles && __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 &&
         (d & (1U << 22U)) != 0;
#endif
  return false;
}

/// How many threads the loops of this process may have.
std::optional<tbb::global_control>& loop_threads() {
  static std::optional<tbb::global_control> limit;
  return limit;
}

}  // namespace

at::Device parse_device(const std::string& text) {
  if (text == "cpu") return at::kCPU;
  int index = 0;
  const bool numbered = text.rfind("cuda:", 0) == 0;
  if (numbered) {
    const char* const first = text.data() + 5;
    const char* const last = text.data() + text.size();
    const auto [end, problem] = std::from_chars(first, last, index);
    if (problem != std::errc() || end != last || index < 0 || index > 127) {
      throw UsageError("--device " + text + ": give cpu, cuda or cuda:i with i from 0");
    }
  } else if (text != "cuda") {
    throw UsageError("--device " + text + ": give cpu, cuda or cuda:i");
  }
  if (!at::hasCUDA()) {
    throw WorkError("--device " + text + ": this machine's libtorch finds no CUDA device; use cpu");
  }
  const int count = static_cast<int>(at::getNumGPUs());
  if (index >= count) {
    throw WorkError("--device " + text + ": this machine has " + std::to_string(count) +
                    " CUDA devices; give a smaller index");
  }
  return {at::kCUDA, static_cast<c10::DeviceIndex>(index)};
}

at::ScalarType parse_compute_type(const std::string& text, at::Device device) {
  if (text == "f32") return at::kFloat;
  if (text == "bf16") return at::kBFloat16;
  if (text != "auto") throw UsageError("--dtype " + text + ": give auto, f32 or bf16");
  return !device.is_cpu() || has_bf16_tiles() ? at::kBFloat16 : at::kFloat;
}

std::string why_compute_type(const std::string& text, const std::string& name) {
  if (text != "auto") return name;
  return name +
         (name == "f32" ? " (--dtype auto: exact)" : " (--dtype auto: several times faster)");
}

std::string compute_type_name(at::ScalarType type) {
  return type == at::kBFloat16 ? "bf16" : "f32";
}

int use_threads(int threads, at::Device device, at::ScalarType type) {
  // Torch has read OMP_NUM_THREADS, and nothing else that says how many cores there are.
  static const int by_default = std::getenv("OMP_NUM_THREADS") != nullptr
                                    ? at::get_num_threads()
                                    : usable_cores(allowed_processors());
  const int wanted = threads > 0 ? threads : by_default;
  // Equal shares of libtorch's and the BLAS's own would wait for the slowest at each product.
  const bool own_loops = device.is_cpu() && type == at::kFloat;
  loop_threads().reset();
  loop_threads().emplace(tbb::global_control::max_allowed_parallelism,
                         static_cast<std::size_t>(wanted));
  at::set_num_threads(own_loops ? 1 : wanted);
  openblas_set_num_threads(own_loops ? 1 : wanted);
  return wanted;
}

std::optional<std::string> slow_product_warning() {
  constexpr std::int64_t kSize = 256;
  constexpr double kSlow =
      6.0;  // GFLOP/s of a core; the reference BLAS reaches 2 to 4, OpenBLAS 50 and more
  // One thread, and its own processor time: where other work keeps the processors busy, threads
  // that wait for each other spend time as well.
  const OneBlasThread one_thread;
  const auto now = [] {
    timespec time{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
  };
  const at::Tensor a = at::ones({kSize, kSize});
  at::mm(a, a);  // pages and kernels are loaded now
  double best = 1e9;
  for (int attempt = 0; attempt < 5; ++attempt) {
    const double start = now();
    at::mm(a, a);
    best = std::min(best, now() - start);
  }
  const double speed = 2e-9 * kSize * kSize * kSize / std::max(best, 1e-6);
  if (speed >= kSlow) return std::nullopt;
  char text[200];
  std::snprintf(text, sizeof text,
                "float32 matrix products run at %.1f GFLOP/s here, probably without OpenBLAS; "
                "install libopenblas0-pthread for up to 60 times that",
                speed);
  return text;
}

namespace {

namespace fs = std::filesystem;

/// A file's first line; empty where there is none.
std::string first_line(const fs::path& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

/// The processors that share a core with this one, as the kernel lists them; without a list, only
/// itself.
std::string core_of(int processor, const fs::path& root) {
  const fs::path topology =
      root / "sys/devices/system/cpu" / ("cpu" + std::to_string(processor)) / "topology";
  for (const char* name : {"core_cpus_list", "thread_siblings_list"}) {
    if (const std::string list = first_line(topology / name); !list.empty()) return list;
  }
  return std::to_string(processor);
}

constexpr double kNoLimit = std::numeric_limits<double>::infinity();

double ratio(const std::string& quota, const std::string& period) {
  std::istringstream text(quota + " " + period);
  double time = 0.0, of = 0.0;
  return text >> time >> of && time > 0.0 && of > 0.0 ? time / of : kNoLimit;
}

/// Processors' worth of time that a group's own files grant.
double quota_of(const fs::path& group) {
  std::istringstream v2(first_line(group / "cpu.max"));  // "max 100000"
  std::string time, period;
  double limit = kNoLimit;
  if (v2 >> time >> period && time != "max") limit = ratio(time, period);
  return std::min(limit, ratio(first_line(group / "cpu.cfs_quota_us"),  // −1: none
                               first_line(group / "cpu.cfs_period_us")));
}

/// The tightest quota from a group up to where its tree is mounted.
double tightest_quota(const fs::path& mount, const std::string& group) {
  double limit = quota_of(mount);
  fs::path at = mount;
  for (const fs::path& part : fs::path(group).relative_path()) {
    at /= part;
    limit = std::min(limit, quota_of(at));
  }
  return limit;
}

/// The quota of the groups in /proc/self/cgroup, lines "0::/path" and "7:cpu,cpuacct:/path".
double process_quota(const fs::path& root) {
  const fs::path mounts = root / "sys/fs/cgroup";
  std::ifstream groups(root / "proc/self/cgroup");
  double limit = kNoLimit;
  for (std::string line; std::getline(groups, line);) {
    const std::size_t first = line.find(':');
    const std::size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string kinds = line.substr(first + 1, second - first - 1);
    const std::string group = line.substr(second + 1);
    if (kinds.empty()) {
      for (const fs::path& mount : {mounts, mounts / "unified"}) {
        limit = std::min(limit, tightest_quota(mount, group));
      }
    } else if (("," + kinds + ",").find(",cpu,") != std::string::npos) {
      for (const fs::path& mount : {mounts / kinds, mounts / "cpu"}) {
        limit = std::min(limit, tightest_quota(mount, group));
      }
    }
  }
  return limit;
}

}  // namespace

std::vector<int> allowed_processors() {
  std::vector<int> allowed;
  // The kernel refuses a set that is smaller than its own.
  for (int room = CPU_SETSIZE; room <= CPU_SETSIZE * 32; room *= 2) {
    cpu_set_t* const set = CPU_ALLOC(static_cast<std::size_t>(room));
    if (set == nullptr) break;
    const std::size_t bytes = CPU_ALLOC_SIZE(static_cast<std::size_t>(room));
    const bool known = sched_getaffinity(0, bytes, set) == 0;
    for (int processor = 0; known && processor < room; ++processor) {
      if (CPU_ISSET_S(static_cast<std::size_t>(processor), bytes, set)) {
        allowed.push_back(processor);
      }
    }
    CPU_FREE(set);
    if (known) break;
  }
  return allowed;
}

int usable_cores(const std::vector<int>& allowed, const fs::path& root) {
  std::set<std::string> cores;
  for (const int processor : allowed) cores.insert(core_of(processor, root));
  const double limit = std::min(static_cast<double>(cores.size()), process_quota(root));
  return std::max(1, static_cast<int>(limit));
}

}  // namespace kvloupe
