#include "analysis/policy/kit/removals.h"

#include <algorithm>

namespace kvloupe {

std::vector<std::int32_t> removed_rows(const std::vector<TokenRule>& rules, int head,
                                       std::span<const std::int32_t> tokens) {
  std::vector<std::int32_t> rows;
  for (std::size_t row = 0; row < tokens.size() && !rules.empty(); ++row) {
    if (std::any_of(rules.begin(), rules.end(),
                    [&](const TokenRule& rule) { return rule.names(head, tokens[row]); })) {
      rows.push_back(static_cast<std::int32_t>(row));
    }
  }
  if (!rows.empty() && rows.size() == tokens.size()) rows.pop_back();
  return rows;
}

std::vector<HeadDecision> PolicyWithRemovals::step(const StepView& view) {
  std::vector<HeadDecision> decisions = inner_->step(view);
  for (std::size_t head = 0; head < decisions.size(); ++head) {
    const std::span<const std::int32_t> tokens = view.caches[head].tokens;
    const std::vector<std::int32_t> rows = removed_rows(rules_, static_cast<int>(head), tokens);
    if (rows.empty()) continue;
    HeadDecision& decision = decisions[head];
    std::erase_if(decision.kept, [&](std::int32_t row) {
      return std::binary_search(rows.begin(), rows.end(), row);
    });
    decision.fates.assign(tokens.size(), Fate::by_score);
    for (const std::int32_t row : rows) {
      decision.fates[static_cast<std::size_t>(row)] = Fate::dropped;
    }
  }
  return decisions;
}

}  // namespace kvloupe
