#pragma once

#include <filesystem>
#include <string_view>

#include "analysis/output_file.h"

namespace kvloupe::figure {

/// Writes a whole file: it then exists either in full or not at all. Throws FileError: the folder
/// is missing or unwritable, the target is a folder, the disk is full.
inline void write_whole_file(const std::filesystem::path& path, std::string_view bytes) {
  OutputFile file(path.string());
  file.write(bytes);
  file.finish();
}

}  // namespace kvloupe::figure
