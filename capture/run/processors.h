#pragma once

#include <filesystem>
#include <vector>

namespace kvloupe {

/// The processors that this process may run on (sched_getaffinity), ascending.
std::vector<int> allowed_processors();

/// How many threads have a core each: the physical cores among the allowed processors, of which two
/// may be one core's hyperthreads, but not more than the quotas of the process's cgroup and of
/// those above it (version 1 or 2) give, rounded down; at least 1. `root`: where /sys and /proc are
/// found; what cannot be read there limits nothing.
int usable_cores(const std::vector<int>& allowed, const std::filesystem::path& root = "/");

}  // namespace kvloupe
