#include "analysis/replay/followed_replay.h"

#include <algorithm>
#include <cstddef>
#include <string>

#include "analysis/error.h"
#include "analysis/one_line.h"
#include "analysis/policy/policy_catalog.h"
#include "analysis/record/layer_states.h"
#include "analysis/replay/ask.h"

namespace kvloupe {

std::vector<int> followed_tokens(const Trace& trace, std::string_view tokens,
                                 std::string_view segment) {
  if (tokens.empty() == segment.empty()) {
    throw UsageError("follow: give either --tokens or --segment");
  }
  if (!tokens.empty()) return named_tokens(trace, tokens);
  const std::vector<std::string>& names = trace.tokens().segment_names;
  if (std::find(names.begin(), names.end(), segment) != names.end()) {
    return named_tokens(trace, segment);
  }
  std::string list;
  for (const std::string& name : names) list += (list.empty() ? "" : ", ") + name;
  throw UsageError("segment '" + in_one_line(std::string(segment)) + "': the trace has " +
                   (names.empty() ? "no segments; use --tokens instead" : "the segments " + list));
}

FollowedReplay follow_tokens(const Trace& trace, ReplayRequest request,
                             const std::vector<int>& tokens, Progress& progress) {
  constexpr std::size_t kMostStates = std::size_t{512} << 20U;
  LayerStatesCache states(kMostStates);
  request.metrics = false;
  request.measures = {};
  request.followed = tokens;
  request.states = &states;
  ReadsRequest reads;
  reads.tokens = tokens;
  reads.roles = true;
  reads.states = &states;
  const std::vector<TokenReads> read = token_reads(trace, reads, progress);
  FollowedReplay result{replay(trace, request, progress), {}};
  AskOptions asking;
  asking.states = &states;
  result.heads = follow(result.replay, read, tokens,
                        restored_heads(trace, result.replay, tokens, asking, progress));
  if (has_part(request.policy, PartKind::storage)) {
    result.replay.notes.push_back(
        "follow says which tokens are gone, not what fewer bits cost: what is read, lost and "
        "brought back is computed from exact keys and values");
  }
  return result;
}

}  // namespace kvloupe
