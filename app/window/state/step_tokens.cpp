#include "app/window/state/step_tokens.h"

#include <algorithm>
#include <limits>

namespace kvloupe::window {

StepTokens step_tokens(const Replay& replay, const HeadReplay& head, int step) {
  StepTokens result;
  const std::size_t count = head.evicted_at.size();
  result.states.assign(count, figure::TokenState::ahead);
  result.fates.resize(count);
  result.leaving.assign(count, false);
  result.scores.assign(count, std::numeric_limits<float>::quiet_NaN());
  result.ranks.assign(count, 0);
  if (step < 0 || static_cast<std::size_t>(step) >= replay.blocks.size()) return result;

  result.states = figure::token_states(replay, head, step);
  for (std::size_t token = 0; token < count; ++token) {
    result.leaving[token] =
        head.evicted_at[token] == step && result.states[token] != figure::TokenState::beyond_window;
  }

  const auto at = static_cast<std::size_t>(step);
  const bool has_scores = at < head.scores.size() && !head.scores[at].empty();
  const bool has_fates = at < head.fates.size() && !head.fates[at].empty();
  if (!has_scores && !has_fates) return result;
  const std::vector<std::int32_t> tokens = replay.tokens_at(head, step);
  if (has_fates && head.fates[at].size() == tokens.size()) {
    for (std::size_t row = 0; row < tokens.size(); ++row) {
      result.fates[static_cast<std::size_t>(tokens[row])] = head.fates[at][row];
    }
  }
  if (has_scores && head.scores[at].size() == tokens.size()) {
    const std::vector<float>& scores = head.scores[at];
    const std::vector<std::size_t> order = by_score(scores);
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

std::vector<float> share_of_heads(const Replay& replay, int step) {
  const auto seen = static_cast<std::size_t>(replay.blocks.at(static_cast<std::size_t>(step)).end);
  std::vector<float> share;
  int heads = 0;
  for (const HeadReplay& head : replay.heads) {
    if (head.shares_with >= 0) continue;  // another layer's cache, counted there
    ++heads;
    share.resize(std::max(share.size(), head.evicted_at.size()), 0.0F);
    for (std::size_t token = 0; token < std::min(seen, head.evicted_at.size()); ++token) {
      const std::int32_t gone = head.evicted_at[token];
      share[token] += gone < 0 || gone > step ? 1.0F : 0.0F;
    }
  }
  for (float& of_token : share) of_token /= static_cast<float>(heads);
  return share;
}

std::string state_text(const StepTokens& tokens, std::size_t token) {
  switch (tokens.states[token]) {
    case figure::TokenState::ahead:
      return "not yet seen";
    case figure::TokenState::retained:
      return "kept";
    case figure::TokenState::protected_:
      return tokens.fates[token] == Fate::recent ? "kept (recent)"
             : tokens.fates[token] == Fate::sink ? "kept (sink)"
             : tokens.fates[token] == Fate::held ? "kept (protected)"
                                                 : "kept (window)";
    case figure::TokenState::synthetic:
      return "kept (synthetic)";
    case figure::TokenState::evicted:
      return tokens.leaving[token] ? "evicted at this step" : "evicted";
    case figure::TokenState::merged:
      return tokens.leaving[token] ? "merged at this step" : "merged";
    case figure::TokenState::beyond_window:
      return "beyond the model's window";
  }
  return {};
}

}  // namespace kvloupe::window
