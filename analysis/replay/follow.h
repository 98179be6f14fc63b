#pragma once
// Following some tokens through every head: which heads read them with the full cache, and which
// lose them under a policy. A head that does both is "lost where it is read".

#include <functional>
#include <limits>
#include <string_view>
#include <vector>

#include "analysis/base/core/progress.h"
#include "analysis/math/head_roles.h"
#include "analysis/replay/record/records.h"
#include "analysis/replay/restore.h"
#include "analysis/trace/trace.h"

namespace kvloupe {

class LayerStatesCache;  // record/layer_states.h

/// The tokens that a text names, ascending, none twice: "120-131,140", the name of a segment of the
/// trace, or "auto": the segment "needle", or token 0 without one. Throws UsageError for what the
/// trace lacks.
std::vector<int> named_tokens(const Trace& trace, std::string_view text);
/// The same for a sequence of `length` tokens.
std::vector<int> named_tokens(const TokenTable& tokens, int length, std::string_view text);

/// How much of their attention the queries of one head give to the followed tokens together, with
/// the full cache: the mean over the queries and over the head's query heads. NaN without such a
/// query after the last followed token.
struct TokenReads {
  static constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();
  int layer = 0;
  int head = 0;
  double question = kUnknown;  // queries of the segment "question"
  double answer = kUnknown;    // queries that write the answer (trace/given_tokens.h)
  double later = kUnknown;     // all queries after the last followed token
  /// The weight of the head's loss: the answer's read attention; where the trace has no answer, the
  /// question's; where it has neither, that of all later queries.
  double read = kUnknown;
  std::vector<HeadRoles> roles;  // [G]; empty unless asked for
  /// The mean over all queries of the head's query heads of exp(H(A[q])), with the full cache: over
  /// how many tokens a query spreads its attention. NaN unless asked for.
  double effective_tokens = kUnknown;
};

struct ReadsRequest {
  std::vector<int> tokens;  // ascending, none twice
  bool roles = false;
  bool effective_tokens = false;  // takes all T²/2 products of each query head
  // These options change the way of computing, not the results.
  bool background = false;
  LayerStatesCache* states = nullptr;
};

/// The reads of every head, layer-major: [L · Hk]. Independent of any policy. Computed from the
/// states and the stored log-sum-exps where the trace has them. `on_layer` is called (from a worker
/// thread, never two at once) as each layer is done. Progress counts layers. Throws UsageError for
/// tokens the trace lacks, or without tokens.
std::vector<TokenReads> token_reads(
    const Trace& trace, const ReadsRequest& request, Progress& progress,
    const std::function<void(const std::vector<TokenReads>&)>& on_layer = {});

/// The fate of the followed tokens in one head.
struct TokenFate {
  /// [S] the share of the followed tokens seen so far that are in the cache after the step. A token
  /// that no later query sees counts as there: the full cache would not have it either. NaN before
  /// the first of them enters.
  std::vector<double> share;
  double kept = 0.0;    // the share at the last step
  int first_loss = -1;  // the first and the last step at which one of them was lost; −1: none was
  int last_loss = -1;
};
TokenFate token_fate(const Replay& replay, const HeadReplay& head, const std::vector<int>& tokens);

/// One head of `kvloupe follow`.
struct FollowedHead {
  TokenReads reads;
  TokenFate fate;
  /// The entries at the step at which they were lost, ascending by token: of those the replay was
  /// asked to follow (ReplayRequest::followed).
  std::vector<TokenLoss> losses;
  /// reads.read × (1 − fate.kept): the attention that the full cache gives to the lost tokens.
  double loss = 0.0;
  /// The head's output if the lost tokens were back; unknown unless it was asked for.
  RestoredHead restored = {};
  /// The number that blames the head: the logit that comes back, if known; else how far the
  /// residual stream would move; else the loss. It is the same kind of number for all heads.
  double blame = 0.0;
};
/// Which number blames: "logit", "change" or "loss".
const char* blame_name(const std::vector<FollowedHead>& heads);

/// Every head of the replay beside its reads, by falling blame (unknown ones last; of equals the
/// earlier layer, then head). `reads` must have the replay's heads; `restored` too, or be empty.
std::vector<FollowedHead> follow(const Replay& replay, const std::vector<TokenReads>& reads,
                                 const std::vector<int>& tokens,
                                 const std::vector<RestoredHead>& restored = {});

}  // namespace kvloupe
