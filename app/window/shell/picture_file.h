#pragma once

#include <filesystem>

#include "app/window/shell/surface.h"

namespace kvloupe::window {

/// Writes a PNG under a temporary name and renames it, so that an incomplete picture never remains.
/// Throws FileError: the folder is missing or unwritable, the disk is full.
void write_png(const Picture& picture, const std::filesystem::path& path);

}  // namespace kvloupe::window
