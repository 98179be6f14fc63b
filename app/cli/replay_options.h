#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>

#include "analysis/replay/replay.h"
#include "analysis/trace/trace.h"

namespace kvloupe::cli {

/// The replay of a trace that a verb makes, and where its JSON goes.
struct ReplayOptions {
  std::string trace, policy, budget, json;
  int block = 0;
  std::optional<Compression> compression;

  /// TRACE, --policy, --budget, --block and --compression.
  void add_replay(CLI::App& verb);
  /// The same, and --json.
  void add_to(CLI::App& verb);
  /// The request of these options. Opens the trace last: first all else is checked. Throws
  /// UsageError, FileError.
  ReplayRequest open(std::optional<Trace>& opened) const;
};

}  // namespace kvloupe::cli
