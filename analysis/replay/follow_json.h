#pragma once

#include <string>
#include <vector>

#include "analysis/replay/follow.h"

namespace kvloupe {

/// `kvloupe follow --json`: {trace, policy, budget, block, notes, tokens, text (where the trace has
/// texts), queries: {question: [first, last] or null, answer: [first, last] or null}, heads:
/// [{layer, head, read_question, read_answer, read_later, read, kept, first_loss, last_loss, loss,
/// share: [S], losses: [{token, step, fate, score, rank, entries, threshold, margin}], roles:
/// [{query_head, role (null: none), rests_on_sink, and each value of role_catalog()}]}]}. Numbers
/// that are not known are null. Heads as `follow` orders them, one a line.
std::string follow_json(const Trace& trace, const std::string& name, const Replay& replay,
                        const std::vector<int>& tokens, const std::vector<FollowedHead>& heads);

}  // namespace kvloupe
