#pragma once

#include <sys/stat.h>

#include <string>

namespace kvloupe {

/// A text that changes when the content of a file does: its size and the time of its last change.
std::string file_identity(const struct stat& status);

}  // namespace kvloupe
