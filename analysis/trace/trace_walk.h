#pragma once

#include <filesystem>

namespace kvloupe {

/// Does everything with a trace that could make the HDF5 library fail later: opens it as Trace
/// does, with all its texts, looks at the header and the chunks of every dataset, reads the first
/// and the last number of each dataset that kvloupe reads, and unpacks the packed ones. The states
/// themselves are not read, so this takes some hundredths of a second, however long the trace is,
/// if it is not packed. Meant for a process that may crash (trace_check.h). Throws FileError.
void walk_trace(const std::filesystem::path& path);

}  // namespace kvloupe
