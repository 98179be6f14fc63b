#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "analysis/replay/follow.h"
#include "analysis/replay/replay.h"

namespace kvloupe {

/// The heads that a finding names and that a search tests in any case: the first of the order of
/// `follow`, if their loss counts for anything; at most three.
std::vector<FollowedHead> named_heads(const std::vector<FollowedHead>& heads);

/// What change and logit of restored_heads() are means over, in words: "the 8 tokens of the answer
/// “drawer 47 …”". Numbers of answers of different length are not the same numbers.
std::string restored_over(const Trace& trace, const Replay& replay);

/// `kvloupe follow --json`: {trace, policy, budget, block, notes, tokens, text (where the trace has
/// texts), blame, over, queries: {question: [first, last] or null, answer: [first, last] or null},
/// heads: [{layer, head, read_question, read_answer, read_later, read, kept, first_loss, last_loss,
/// loss, share: [S], losses: [{token, step, fate, score, rank, entries, threshold, margin}], roles:
/// [{query_head, role (null: none), rests_on_sink, and each value of role_catalog()}]}]}. Numbers
/// that are not known are null. Heads as `follow` orders them, one a line.
std::string follow_json(const Trace& trace, const std::string& name, const Replay& replay,
                        const std::vector<int>& tokens, const std::vector<FollowedHead>& heads);

/// The tokens of `kvloupe follow`: either tokens, "120-131,140", or the name of a segment of the
/// trace; the other is empty. Throws UsageError, also where neither or both are given.
std::vector<int> followed_tokens(const Trace& trace, std::string_view tokens,
                                 std::string_view segment);

/// "12-20,30": runs of these tokens, ascending, with `to` and `between` as marks.
std::string ranges_text(const std::vector<int>& tokens, const char* to, const char* between);

/// A replay, and every head of it beside its reads.
struct FollowedReplay {
  Replay replay;
  std::vector<FollowedHead> heads;
};

/// All that `kvloupe follow` computes, with roles and restored heads. The request's measures,
/// followed tokens and states do not count. Throws what replay() and token_reads() throw.
FollowedReplay follow_tokens(const Trace& trace, ReplayRequest request,
                             const std::vector<int>& tokens, Progress& progress);

}  // namespace kvloupe
