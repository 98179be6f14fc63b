#include "app/figure/token_state.h"

#include <algorithm>
#include <limits>

namespace kvloupe::figure {

bool is_protection(Fate fate) {
  return fate == Fate::recent || fate == Fate::sink || fate == Fate::window || fate == Fate::held;
}

namespace {
struct StateLook {
  const char* name;
  Colour Palette::*colour;
  Pattern pattern = Pattern::none;
};
const StateLook& look_of(TokenState state) {
  // In the order of the enum.
  static constexpr StateLook kLooks[] = {{"ahead", &Palette::paper},
                                         {"retained", &Palette::retained},
                                         {"protected", &Palette::protected_, Pattern::dots},
                                         {"evicted", &Palette::evicted, Pattern::rising},
                                         {"merged", &Palette::merged, Pattern::falling},
                                         {"synthetic", &Palette::pivot, Pattern::level},
                                         {"beyond_window", &Palette::paper}};
  return kLooks[static_cast<std::size_t>(state)];
}
}  // namespace

const char* state_name(TokenState state) { return look_of(state).name; }

Colour state_colour(const Palette& colours, TokenState state) {
  return colours.*look_of(state).colour;
}

Pattern state_pattern(TokenState state) { return look_of(state).pattern; }

std::vector<TokenState> token_states(const Replay& replay, const HeadReplay& head, int step) {
  const auto s = static_cast<std::size_t>(step);
  const std::int32_t end = replay.blocks.at(s).end;
  std::vector<TokenState> states(head.evicted_at.size(), TokenState::ahead);
  for (std::size_t t = 0; t < states.size(); ++t) {
    if (static_cast<std::int32_t>(t) >= end) continue;
    const bool gone = head.evicted_at[t] >= 0 && head.evicted_at[t] <= step;
    states[t] = !gone                                           ? TokenState::retained
                : replay.left_unseen(head, static_cast<int>(t)) ? TokenState::beyond_window
                                                                : TokenState::evicted;
  }
  const auto mark = [&](int at, Fate what, TokenState state) {
    const auto a = static_cast<std::size_t>(at);
    if (a >= head.fates.size() || head.fates[a].empty()) return;
    const std::vector<std::int32_t> tokens = replay.tokens_at(head, at);
    for (std::size_t i = 0; i < tokens.size() && i < head.fates[a].size(); ++i) {
      const Fate fate = head.fates[a][i];
      const bool wanted = what == Fate::merged ? fate == Fate::merged : is_protection(fate);
      TokenState& now = states[static_cast<std::size_t>(tokens[i])];
      if (wanted && (state == TokenState::merged) == (now == TokenState::evicted)) now = state;
    }
  };
  mark(step, Fate::recent, TokenState::protected_);
  for (int at = 0; at <= step; ++at) {
    const auto a = static_cast<std::size_t>(at);
    if (a < head.fates.size() && std::find(head.fates[a].begin(), head.fates[a].end(),
                                           Fate::merged) != head.fates[a].end()) {
      mark(at, Fate::merged, TokenState::merged);
    }
  }
  for (int at = 0; at <= step; ++at) {
    for (const std::int32_t token : made_synthetic(replay, head, at)) {
      TokenState& now = states[static_cast<std::size_t>(token)];
      if (now == TokenState::retained) now = TokenState::synthetic;
    }
  }
  return states;
}

std::vector<std::int32_t> made_synthetic(const Replay& replay, const HeadReplay& head, int step) {
  std::vector<std::int32_t> tokens;
  const StepRecord& record = head.steps.at(static_cast<std::size_t>(step));
  if (!record.made_entries()) return tokens;
  for (const Merge& merge : replay.merges_at(head, step)) tokens.push_back(merge.into);
  for (const Refit& refit : record.refits) tokens.push_back(refit.token);
  return tokens;
}

std::vector<float> score_ranks(const Replay& replay, const HeadReplay& head, int step) {
  std::vector<float> ranks(head.evicted_at.size(), std::numeric_limits<float>::quiet_NaN());
  const auto s = static_cast<std::size_t>(step);
  if (s >= head.scores.size() || head.scores[s].empty()) return ranks;
  const std::vector<float>& scores = head.scores[s];
  const std::vector<std::int32_t> tokens = replay.tokens_at(head, step);
  if (scores.size() != tokens.size()) return ranks;
  const std::vector<std::size_t> order = by_score(scores);
  const auto last = static_cast<float>(order.size() - 1);
  for (std::size_t i = 0; i < order.size(); ++i) {
    ranks[static_cast<std::size_t>(tokens[order[i]])] =
        last > 0.0F ? (last - static_cast<float>(i)) / last : 1.0F;
  }
  return ranks;
}

}  // namespace kvloupe::figure
