#pragma once

#include <filesystem>
#include <optional>

namespace kvloupe {

/// Seconds that the threads of this process, as many as there are now, have been ready to run while
/// their processors ran something else: the second number of /proc/self/task/*/schedstat, added up.
/// Nothing where the kernel keeps no such account. `root`: where /proc is found.
std::optional<double> waiting_seconds(const std::filesystem::path& root = "/");

}  // namespace kvloupe
