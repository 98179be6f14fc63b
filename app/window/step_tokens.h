#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "analysis/replay/replay.h"

namespace kvloupe::window {

/// The state of every token of the sequence in one head, after one step.
struct StepTokens {
  enum class State : std::uint8_t {
    unseen,
    kept,
    kept_recent,
    kept_sink,
    kept_window,
    evicted_now,
    evicted,
    merged,
    beyond_window
  };
  std::vector<State> states;  // [T]
  std::vector<float> scores;  // [T]; NaN if the entry was not scored at this step
  std::vector<int> ranks;     // [T]; 1: highest score; 0: not scored
  int scored = 0;             // entries with a score
  float least = 0.0F;         // of the scores
  float most = 0.0F;
};

/// O(T + n log n).
StepTokens step_tokens(const Replay& replay, const HeadReplay& head, int step);

/// Whether an entry is in the cache after the step.
bool is_kept(StepTokens::State state);

/// One word for a person: "kept", "kept (recent)", "evicted at this step", ...
std::string state_text(StepTokens::State state);

}  // namespace kvloupe::window
