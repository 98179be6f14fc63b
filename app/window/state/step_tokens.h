#pragma once

#include <optional>
#include <string>
#include <vector>

#include "analysis/replay/replay.h"
#include "app/figure/token_state.h"

namespace kvloupe::window {

/// The state of every token of the sequence in one head, after one step.
struct StepTokens {
  std::vector<figure::TokenState> states;  // [T]
  /// [T] What the policy decided about the entry at this step; nothing where it decided nothing.
  std::vector<std::optional<Fate>> fates;
  std::vector<bool> leaving;  // [T] whether it was evicted, or merged into another, at this step
  std::vector<float> scores;  // [T]; NaN if the entry was not scored at this step
  std::vector<int> ranks;     // [T]; 1: highest score; 0: not scored
  int scored = 0;             // entries with a score
  float least = 0.0F;         // of the scores
  float most = 0.0F;
};

/// O(T + n log n); after merges also O(n) for each earlier step.
StepTokens step_tokens(const Replay& replay, const HeadReplay& head, int step);

/// One word for a person: "kept", "kept (recent)", "evicted at this step", ...
std::string state_text(const StepTokens& tokens, std::size_t token);

/// [T] the share of the replay's heads that have each token in the cache after a step; 0 for tokens
/// still to come. O(heads · T).
std::vector<float> share_of_heads(const Replay& replay, int step);

}  // namespace kvloupe::window
