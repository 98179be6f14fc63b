#pragma once

#include <filesystem>
#include <string_view>

namespace kvloupe::figure {

/// Writes a whole file beside its target, fsyncs it and renames it onto the target, so that no half
/// file is ever seen. Throws FileError: the folder is missing or unwritable, the target is a
/// folder, the disk is full.
void write_whole_file(const std::filesystem::path& path, std::string_view bytes);

}  // namespace kvloupe::figure
