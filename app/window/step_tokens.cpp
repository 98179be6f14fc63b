#include "app/window/step_tokens.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace kvloupe::window {

namespace {
StepTokens::State kept_as(Fate fate) {
  switch (fate) {
    case Fate::recent:
      return StepTokens::State::kept_recent;
    case Fate::sink:
      return StepTokens::State::kept_sink;
    case Fate::window:
      return StepTokens::State::kept_window;
    case Fate::merged:
      return StepTokens::State::merged;
    default:
      return StepTokens::State::kept;
  }
}
}  // namespace

StepTokens step_tokens(const Replay& replay, const HeadReplay& head, int step) {
  StepTokens result;
  const std::size_t count = head.evicted_at.size();
  result.states.assign(count, StepTokens::State::unseen);
  result.scores.assign(count, std::numeric_limits<float>::quiet_NaN());
  result.ranks.assign(count, 0);
  if (step < 0 || static_cast<std::size_t>(step) >= replay.blocks.size()) return result;

  const auto seen = static_cast<std::size_t>(replay.blocks[static_cast<std::size_t>(step)].end);
  for (std::size_t token = 0; token < std::min(seen, count); ++token) {
    const int gone = head.evicted_at[token];
    const bool left = gone >= 0 && replay.left_unseen(head, static_cast<int>(token));
    result.states[token] = gone < 0 || gone > step ? StepTokens::State::kept
                           : left                  ? StepTokens::State::beyond_window
                           : gone == step          ? StepTokens::State::evicted_now
                                                   : StepTokens::State::evicted;
  }

  const auto at = static_cast<std::size_t>(step);
  const bool has_scores = at < head.scores.size() && !head.scores[at].empty();
  const bool has_fates = at < head.fates.size() && !head.fates[at].empty();
  if (!has_scores && !has_fates) return result;
  const std::vector<std::int32_t> tokens = replay.tokens_at(head, step);
  if (has_fates && head.fates[at].size() == tokens.size()) {
    for (std::size_t row = 0; row < tokens.size(); ++row) {
      auto& state = result.states[static_cast<std::size_t>(tokens[row])];
      const Fate fate = head.fates[at][row];
      if (state == StepTokens::State::kept) state = kept_as(fate);
      if (state == StepTokens::State::evicted_now && fate == Fate::merged) {
        state = StepTokens::State::merged;
      }
    }
  }
  if (has_scores && head.scores[at].size() == tokens.size()) {
    const std::vector<float>& scores = head.scores[at];
    std::vector<std::size_t> order(tokens.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    // As the policies do: of equal scores the later token ranks higher.
    std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
      return scores[a] != scores[b] ? scores[a] > scores[b] : a > b;
    });
    for (std::size_t rank = 0; rank < order.size(); ++rank) {
      const auto token = static_cast<std::size_t>(tokens[order[rank]]);
      result.ranks[token] = static_cast<int>(rank) + 1;
      result.scores[token] = scores[order[rank]];
    }
    result.scored = static_cast<int>(order.size());
    if (!order.empty()) {
      result.most = scores[order.front()];
      result.least = scores[order.back()];
    }
  }
  return result;
}

bool is_kept(StepTokens::State state) {
  using State = StepTokens::State;
  return state == State::kept || state == State::kept_recent || state == State::kept_sink ||
         state == State::kept_window;
}

std::string state_text(StepTokens::State state) {
  switch (state) {
    case StepTokens::State::unseen:
      return "not yet seen";
    case StepTokens::State::kept:
      return "kept";
    case StepTokens::State::kept_recent:
      return "kept (recent)";
    case StepTokens::State::kept_sink:
      return "kept (sink)";
    case StepTokens::State::kept_window:
      return "kept (window)";
    case StepTokens::State::evicted_now:
      return "evicted at this step";
    case StepTokens::State::evicted:
      return "evicted";
    case StepTokens::State::merged:
      return "merged";
    case StepTokens::State::beyond_window:
      return "beyond the model's window";
  }
  return {};
}

}  // namespace kvloupe::window
