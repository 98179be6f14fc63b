#pragma once
// Traces of the built-in demo model, captured when needed and kept for the next time.

#include <filesystem>
#include <string>

#include "analysis/base/core/progress.h"
#include "analysis/trace/model_info.h"

namespace kvloupe::demo {

/// The folder of captured traces: `cache`, or the user's own folder (DemoPlaces).
std::filesystem::path traces_folder(const std::filesystem::path& cache);

/// A run of the demo model.
struct DemoRun {
  std::string prompt = "needle";  // a file in assets/prompts, without .txt
  int generate = 16;
  int block = 64;
  /// Empty: the full cache. Else a closed loop over the tokens of the run with the full cache,
  /// including the generated tokens, so that the two runs can be compared. The predictions of the
  /// trace show the model's own continuation. `{needle}` in it stands for the tokens of the segment
  /// of that name, such as 295-307.
  std::string policy = {};
  std::string budget = {};  // of that
  bool own_words = false;   // of a closed loop: generate, and do not follow the full cache's tokens
  bool operator==(const DemoRun&) const = default;
};

/// The places of the files. The program looks for those whose fields are empty.
struct DemoPlaces {
  std::filesystem::path assets;  // where job::find_asset() finds them
  std::filesystem::path cache;   // $XDG_CACHE_HOME/kvloupe, else ~/.cache/kvloupe
  std::string program;           // kvloupe-capture beside this program, else in $PATH
};

/// The trace of a run, in the user's cache folder. An existing trace is used, unless it cannot be
/// read, or the model, the prompt or kvloupe-capture is newer: then kvloupe-capture runs, which
/// takes about a second; `progress` counts its tokens. Two programs may do this at the same time.
///
/// Throws UsageError for an unknown prompt name and for a policy or a budget that cannot be parsed,
/// FileError for a missing prompt file and a cache folder that cannot be written, WorkError with
/// the last line of kvloupe-capture if that fails, Cancelled.
std::filesystem::path demo_trace(const DemoRun& run, Progress& progress,
                                 const DemoPlaces& places = {});

/// The policy with the tokens of `trace` in the place of names of segments in braces. Throws
/// WorkError where the trace has no such segment.
std::string with_segments(const std::string& policy, const TokenTable& tokens);

/// A policy as the catalogue writes it, its names of segments in braces as they are. Throws
/// UsageError as parse_policy() does.
std::string normal_policy(const std::string& policy);

/// The path at which demo_trace() stores the trace.
std::filesystem::path demo_trace_path(const DemoRun& run, const DemoPlaces& places = {});

}  // namespace kvloupe::demo
