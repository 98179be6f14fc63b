#pragma once
// All of `kvloupe follow`: the tokens that its options name, the replay, and every head of it.

#include <string_view>
#include <vector>

#include "analysis/replay/follow.h"
#include "analysis/replay/replay.h"

namespace kvloupe {

/// The tokens of `kvloupe follow`: either tokens, "120-131,140", or the name of a segment of the
/// trace; the other is empty. Throws UsageError, also where neither or both are given.
std::vector<int> followed_tokens(const Trace& trace, std::string_view tokens,
                                 std::string_view segment);

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
