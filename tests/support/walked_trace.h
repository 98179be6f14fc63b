#pragma once

#include <filesystem>

#include "analysis/trace/trace.h"

namespace kvloupe::test {

/// How a child process ends that walks through a trace (trace_check.h). HDF5 crashes on some damage:
/// kvloupe opens a trace only after a child has passed it (trace_check.h). Tests that read damaged
/// traces in their own process ask first, as kvloupe does, but without starting a program.
enum class Walked { passed, refused, crashed };
Walked walk_in_child(const std::filesystem::path& path);

/// Reads all that a trace holds.
void read_everything(const Trace& trace);

}  // namespace kvloupe::test
