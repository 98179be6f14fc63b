#pragma once

#include <cstdint>
#include <filesystem>

namespace kvloupe {

/// The bytes of memory that this process can still take: what the system says is available, or what
/// its control group (version 1 or 2) has left, whichever is less. The largest number where neither
/// tells. `root`: in place of "/", for tests.
std::int64_t available_memory(const std::filesystem::path& root = "/");

}  // namespace kvloupe
