#include "capture/model/available_memory.h"

#include <algorithm>
#include <fstream>
#include <limits>
#include <optional>
#include <sstream>
#include <string>

namespace kvloupe {

namespace {

constexpr std::int64_t kUnknown = std::numeric_limits<std::int64_t>::max();

/// The number in a file; nothing for "max" or if there is no file.
std::optional<std::int64_t> number_in(const std::filesystem::path& path) {
  std::ifstream in(path);
  std::int64_t number = 0;
  if (in >> number) return number;
  return std::nullopt;
}

std::int64_t system_memory(const std::filesystem::path& root) {
  std::ifstream in(root / "proc/meminfo");
  for (std::string line; std::getline(in, line);) {
    std::istringstream words(line);
    std::string name;
    std::int64_t kilobytes = 0;
    if (words >> name >> kilobytes && name == "MemAvailable:") return kilobytes * 1024;
  }
  return kUnknown;
}

/// Pages of files, which the system takes back when somebody needs the memory.
std::int64_t file_pages(const std::filesystem::path& folder) {
  std::int64_t bytes = 0;
  std::ifstream in(folder / "memory.stat");
  std::string name;
  for (std::int64_t number = 0; in >> name >> number;) {
    if (name == "inactive_file" || name == "active_file") bytes += number;
  }
  return bytes;
}

/// Bytes that a group and those above it have left. `group` begins with a slash.
std::int64_t left_in(const std::filesystem::path& mount, const std::string& group,
                     const char* limit_name, const char* used_name) {
  std::int64_t left = kUnknown;
  std::filesystem::path place = group;
  for (;;) {
    const std::filesystem::path folder = mount / place.relative_path();
    const auto limit = number_in(folder / limit_name), used = number_in(folder / used_name);
    if (limit && used && *limit >= 0 && *used >= 0) {
      const std::int64_t taken = std::max<std::int64_t>(*used - file_pages(folder), 0);
      left = std::min(left, std::max<std::int64_t>(*limit - taken, 0));
    }
    if (place == place.root_path() || place.empty()) return left;
    place = place.parent_path();
  }
}

std::int64_t group_memory(const std::filesystem::path& root) {
  std::int64_t left = kUnknown;
  std::ifstream in(root / "proc/self/cgroup");
  for (std::string line; std::getline(in, line);) {  // number:controllers:/group
    const std::size_t first = line.find(':');
    const std::size_t second = first == line.npos ? first : line.find(':', first + 1);
    if (second == line.npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const std::string group = line.substr(second + 1);
    if (controllers.empty()) {
      left = std::min(left, left_in(root / "sys/fs/cgroup", group, "memory.max", "memory.current"));
    } else if (("," + controllers + ",").find(",memory,") != std::string::npos) {
      left = std::min(left, left_in(root / "sys/fs/cgroup/memory", group, "memory.limit_in_bytes",
                                    "memory.usage_in_bytes"));
    }
  }
  return left;
}

}  // namespace

std::int64_t available_memory(const std::filesystem::path& root) {
  return std::min(system_memory(root), group_memory(root));
}

}  // namespace kvloupe
