#pragma once

#include <vector>

#include "analysis/replay/replay.h"
#include "app/plot/pattern.h"
#include "app/scene/style.h"

namespace kvloupe::figure {

/// The state of a token after a step.
enum class TokenState : std::uint8_t {
  ahead,  // not processed yet
  retained,
  protected_,  // retained because it is recent, a sink, or in the observation window
  evicted,
  merged,         // merged into another token's entry
  synthetic,      // retained with another key, value or bias than its own
  beyond_window,  // left the model's window: no later query sees it
};

/// Whether no policy decided about a token in this state: not read yet, or beyond the model's
/// window.
constexpr bool is_out_of_play(TokenState state) {
  return state == TokenState::ahead || state == TokenState::beyond_window;
}

/// Whether the token is in the cache.
constexpr bool is_kept(TokenState state) {
  return state == TokenState::retained || state == TokenState::protected_ ||
         state == TokenState::synthetic;
}

/// As in CSV and read-outs.
const char* state_name(TokenState state);

/// The colour of paper if a policy did not decide.
Colour state_colour(const Palette& colours, TokenState state);

/// The pattern beside that colour in a style with patterns: rising lines for evicted, falling lines
/// for merged, dots for protected, level lines for synthetic; none for retained and for tokens that
/// the policy did not decide about.
Pattern state_pattern(TokenState state);

/// The state of every token [T] after a step's eviction, in one head. Distinguishes protected from
/// retained and merged from evicted only if the replay kept the fates of this head. A protected
/// token counts as protected even if its entry is synthetic.
std::vector<TokenState> token_states(const Replay& replay, const HeadReplay& head, int step);

/// The tokens whose entries the step made synthetic: pivots of merging sets, receivers of values,
/// refitted entries.
std::vector<std::int32_t> made_synthetic(const Replay& replay, const HeadReplay& head, int step);

/// Each present token's rank among its step's scores: 0 for the lowest, 1 for the highest; NaN
/// without a score. [T]
std::vector<float> score_ranks(const Replay& replay, const HeadReplay& head, int step);

/// Whether a fate means that the token was kept whatever its score.
bool is_protection(Fate fate);

}  // namespace kvloupe::figure
