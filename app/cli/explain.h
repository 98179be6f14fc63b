#pragma once

#include <string>
#include <vector>

#include "analysis/replay/replay.h"

namespace kvloupe::cli {

/// What `replay --explain` is to say.
struct ExplainOptions {
  int token = 0;
  std::vector<int> layers, heads;  // empty: all
  bool last_step_only = false;
  std::string json;  // file or "-"; empty: text on standard output
};

/// Replays each head asked for, keeping its scores, and says at each step why the token stayed or
/// left. Throws what replay() and explain() throw.
void run_explain(const Trace& trace, const std::string& name, ReplayRequest request,
                 const ExplainOptions& options);

}  // namespace kvloupe::cli
