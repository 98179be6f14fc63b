#pragma once

#include <cstdint>
#include <filesystem>

namespace kvloupe {

/// The bytes of memory that this process can still take: those that the system reports as
/// available, or those left in its control group (version 1 or 2), whichever is less. The largest
/// number if neither is known. `root`: in place of "/", for tests.
std::int64_t available_memory(const std::filesystem::path& root = "/");

}  // namespace kvloupe
