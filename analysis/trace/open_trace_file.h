#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "analysis/trace/hdf5.h"

namespace kvloupe::hdf5 {

/// A file opened for reading, with checks because nobody vouches for it.
struct TraceFile {
  Handle file;
  std::uint64_t bytes = 0;
  std::string identity;  // changes when the content does: size and modification time
};

/// Does not check the content yet. Throws FileError: missing, unreadable, not HDF5; Failure:
/// truncated or damaged. Call under Lock.
TraceFile open_trace_file(const std::filesystem::path& path);

}  // namespace kvloupe::hdf5
