#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace kvloupe {

/// A file's bytes. Throws FileError: missing, a folder, unreadable, larger than `largest` bytes.
std::string read_file(const std::filesystem::path& path, std::uintmax_t largest);

}  // namespace kvloupe
