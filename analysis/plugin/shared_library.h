#pragma once

#include <string>

namespace kvloupe {

/// Maps a shared library into this process, for as long as the process runs; two calls with one
/// file give one handle. `path`: absolute. Throws FileError for a file that is missing, not a
/// shared library of this machine, cut off, or that the loader refuses.
void* open_shared_library(const std::string& path);

/// The address of a symbol; nullptr: the library does not have it.
void* find_symbol(void* library, const char* name);

}  // namespace kvloupe
