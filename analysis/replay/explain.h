#pragma once

#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "analysis/replay/replay.h"

namespace kvloupe {

/// Why one entry of one head was kept or left at a step.
struct StepReason {
  int step = 0;
  int cache_size = 0;  // n before eviction
  int retained = 0;
  /// Whether the policy evicted anything at this step. If not, all entries stay, except those that
  /// no later query sees (Fate::beyond_window).
  bool decided = false;
  Fate fate = Fate::by_score;
  /// Over the cache's n entries, before protection; NaN and 0 if the policy gives no score.
  double score = std::numeric_limits<double>::quiet_NaN();
  int rank = 0;  // 1 is the highest; of equal scores the later entry ranks higher
  /// The lowest score kept for its score, and score − threshold: below 0 the entry is out, at 0 it
  /// may be either. NaN if no entry was kept for its score.
  double threshold = std::numeric_limits<double>::quiet_NaN();
  double margin = std::numeric_limits<double>::quiet_NaN();
  int ties = 0;
  std::vector<Merge> merges;   // the step's sets that this entry is in, as token indices
  std::optional<Refit> refit;  // what the step made of an entry that stayed
};

/// One token in one head.
struct TokenExplanation {
  int token = 0;
  int entered = 0;  // the step at which the token entered
  int left = -1;    // the step at which it was evicted, merged or left the window; −1: never
  std::vector<StepReason> steps;  // from `entered` to `left`, or to the last
};

/// Throws UsageError for a token that the replay does not have, and std::invalid_argument if the
/// head was replayed without its scores (ReplayRequest::scores_head).
TokenExplanation explain(const Replay& replay, const HeadReplay& head, int token);

/// How an entry left its head, for a sentence: "evicted", "merged", "dropped", ...
const char* leaving_text(Fate fate);

/// One sentence: what happened to the entry at that step, and why.
std::string reason_text(const TokenExplanation& explanation, const StepReason& reason);

}  // namespace kvloupe
