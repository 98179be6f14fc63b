#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

namespace kvloupe {

/// Bytes that this user may still write to the file system of a folder; none where the system does
/// not say.
std::optional<std::uint64_t> free_space(const std::filesystem::path& folder);

}  // namespace kvloupe
