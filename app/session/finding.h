#pragma once
// The findings about followed tokens, in a few sentences that one can paste into a note.

#include <optional>
#include <string>
#include <vector>

#include "analysis/evaluation/rescue_results.h"
#include "analysis/replay/follow_json.h"
#include "analysis/trace/trace.h"

namespace kvloupe::window {

struct Finding {
  std::vector<HeadIndex> heads;       // whose loss matters most (named_heads()); none: no loss does
  std::string blamed;                 // these heads, by what number, over whose answer
  std::string lost;                   // how much each read and lost, at which step and rank
  std::string proof;                  // what the running model says, or that it was not asked
  std::vector<std::string> commands;  // that repeat it

  std::vector<std::string> sentences() const;
  /// All of it, a line each.
  std::string text() const;
};

/// The source of the finding.
struct FindingSource {
  const Trace& trace;
  const std::vector<int>& tokens;          // ascending, at least one
  const std::string& policy;               // canonical spec
  const std::string& budget;               // as written
  int entries = 0;                         // the budget
  int block = 0;                           // 0: the trace's
  std::optional<Compression> compression;  // none: the trace's
  const std::vector<FollowedHead>& heads;  // of follow(), with losses
  std::string over;                        // restored_over()
  const RescueResults* rescue = nullptr;   // of the same tokens, policy and budget; or none
  std::string model;                       // folder, for the command; empty: not known
};
Finding finding(const FindingSource& source);

/// "token 12", "tokens 12–20" or "13 tokens (12–20, 30–33)".
std::string tokens_in_words(const std::vector<int>& tokens);

}  // namespace kvloupe::window
