#pragma once

#include <string>
#include <vector>

#include "analysis/replay/replay.h"

namespace kvloupe::cli {

/// The options of `replay --explain`.
struct ExplainOptions {
  int token = 0;
  std::vector<int> layers, heads;  // empty: all
  bool last_step_only = false;
  std::string json;  // file or "-"; empty: text on standard output
};

/// Replays each selected head, keeping its scores, and explains at each step why the token is kept
/// or evicted. Throws what replay() and explain() throw.
void run_explain(const Trace& trace, const std::string& name, ReplayRequest request,
                 const ExplainOptions& options);

}  // namespace kvloupe::cli
