#include "capture/run/processors.h"

#include <sched.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <set>
#include <sstream>
#include <string>

namespace kvloupe {

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
