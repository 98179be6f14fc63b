#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "analysis/trace/hdf5.h"

namespace kvloupe::hdf5 {

/// A file opened for reading as files nobody vouches for are.
struct TraceFile {
  Handle file;
  std::uint64_t bytes = 0;
  std::string identity;  // changes when the content does: size and modification time
};

/// Says nothing yet about what the file holds. Throws FileError: missing, unreadable, not HDF5;
/// Failure: truncated or damaged. Call under Lock.
TraceFile open_trace_file(const std::filesystem::path& path);

}  // namespace kvloupe::hdf5
