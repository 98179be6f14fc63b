#pragma once
// Traces of the built-in demo model, captured on the spot and kept for the next time.

#include <filesystem>
#include <functional>
#include <string>

#include "analysis/progress.h"

namespace kvloupe::demo {

/// A run of the demo model.
struct DemoRun {
  std::string prompt = "needle";  // a file in assets/prompts, without .txt
  int generate = 16;
  int block = 64;
  /// Empty: the full cache. Else a closed loop over the tokens of the run with the full cache, the
  /// generated ones forced: so that the two can be compared. What the model itself would have said
  /// then stands in its predictions.
  std::string policy = {};
  std::string budget = {};  // of that
  bool operator==(const DemoRun&) const = default;
};

/// Where things are. What is empty is looked for.
struct DemoPlaces {
  std::filesystem::path assets;  // where job::find_asset() finds them
  std::filesystem::path cache;   // $XDG_CACHE_HOME/kvloupe, else ~/.cache/kvloupe
  std::string program;           // kvloupe-capture beside this program, else in $PATH
};

/// The trace of a run, in the user's cache folder. One that is there is taken, unless it cannot be
/// read, or the model, the prompt or kvloupe-capture came after it: then kvloupe-capture is run,
/// which takes about a second, counted in tokens by `progress`. Two programs may do so at once.
///
/// Throws UsageError for a prompt's name that is none and for a policy or a budget that do not
/// parse, FileError for a prompt that is missing and a cache folder that cannot be written,
/// WorkError with the last line of kvloupe-capture where that fails, Cancelled.
std::filesystem::path demo_trace(const DemoRun& run, Progress& progress,
                                 const DemoPlaces& places = {});

/// Where demo_trace() keeps it.
std::filesystem::path demo_trace_path(const DemoRun& run, const DemoPlaces& places = {});

}  // namespace kvloupe::demo
