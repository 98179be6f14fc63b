#include "capture/eval/rescue_blame.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>
#include <string>

#include "analysis/error.h"
#include "analysis/metric/rank_correlation.h"
#include "analysis/metric/sink.h"
#include "analysis/output_file.h"
#include "analysis/replay/explain.h"
#include "analysis/replay/follow_json.h"
#include "analysis/replay/replay.h"
#include "analysis/unknown.h"
#include "capture/run/capture.h"

namespace kvloupe {

namespace {
/// The prompt and what is right after it, run with the full cache. The expected answer follows the
/// prompt, so that the queries that write it can be asked.
void capture_with_answer(const RescueRequest& request, const RescuePrompt& prompt,
                         const RescueResults& results, const std::string& target,
                         Progress& progress) {
  CaptureRequest wanted{.model = request.model, .tokens = prompt.sequence};
  for (const std::int32_t id : results.expected_ids) wanted.tokens->add(id, "answer");
  wanted.target = target;
  wanted.block = request.block;
  wanted.dtype = request.dtype;
  wanted.device = request.device;
  wanted.threads = request.threads;
  wanted.attention = AttentionStorage::none;
  if (prompt.probe) wanted.probe = probe_words().at(prompt.probe->kind);
  struct NoObserver : CaptureObserver {
    void on_tokens(int, int, int) override {}
    void on_note(const std::string&) override {}
  } nobody;
  run_capture(wanted, progress, nobody);
}

/// The mean over the tokens of the share of the head's other entries that the policy's score ranks
/// lower, at the last step at which the head had the token. NaN where the policy has no scores.
double score_rank(const Trace& trace, const RescueRequest& request, int budget, const HeadIndex& at,
                  const std::vector<int>& tokens, Progress& progress) {
  ReplayRequest replayed{.policy = request.policy,
                         .budget = budget,
                         .block = request.block,
                         .layers = {at.layer},
                         .metrics = false,
                         .scores_layer = at.layer,
                         .scores_head = at.head};
  const Replay made = replay(trace, replayed, progress);
  double sum = 0.0;
  int ranked = 0;
  for (const int token : tokens) {
    const TokenExplanation steps = explain(made, *made.find(at.layer, at.head), token);
    const auto last = std::find_if(steps.steps.rbegin(), steps.steps.rend(),
                                   [](const StepReason& step) { return step.rank > 0; });
    if (last == steps.steps.rend() || last->cache_size < 2) continue;
    sum += static_cast<double>(last->cache_size - last->rank) / (last->cache_size - 1);
    ++ranked;
  }
  return ranked > 0 ? sum / ranked : kUnknown;
}
}  // namespace

RescueBlame predict_rescue(const RescueRequest& request, const RescuePrompt& prompt,
                           Progress& progress, RescueResults& results) {
  std::optional<UnfinishedFile> made;  // outlives the trace in it
  std::optional<const Trace> trace;
  if (request.trace) {
    trace.emplace(*request.trace);
  } else {
    made.emplace(request.output);
    if (made->error() != 0) {
      throw FileError(request.output,
                      std::string("cannot write beside it: ") + std::strerror(made->error()));
    }
    capture_with_answer(request, prompt, results, made->path(), progress);
    trace.emplace(made->path());
  }
  ReadsRequest reads;
  reads.tokens = prompt.tokens;
  Progress own(progress, 0);
  const std::vector<TokenReads> read = token_reads(*trace, reads, own);
  const auto followed = [&](const PolicySpec& policy, int budget) {
    ReplayRequest replayed{
        .policy = policy, .budget = budget, .block = request.block, .metrics = false};
    FollowedReplay made_replay{replay(*trace, replayed, own), {}};
    made_replay.heads = follow(made_replay.replay, read, prompt.tokens,
                               restored_heads(*trace, made_replay.replay, prompt.tokens, {}, own));
    return made_replay;
  };
  const auto by_head = [&](const std::vector<FollowedHead>& heads) {
    std::vector<double> blame(results.keep.heads.size());
    for (const FollowedHead& head : heads)
      blame[results.index({head.reads.layer, head.reads.head})] = head.blame;
    return blame;
  };
  const auto [evicting, heads] = followed(request.policy, results.budget);
  const PolicySpec dropping = parse_policy(spec_dropping(prompt.tokens));
  RescueBlame blame{by_head(heads), by_head(followed(dropping, trace->length()).heads), {}};
  for (const FollowedHead& head : named_heads(heads))
    blame.named.push_back({head.reads.layer, head.reads.head});
  results.predicted_by = blame_name(heads);
  results.predicted_over = restored_over(*trace, evicting);
  for (const FollowedHead& head : heads) {
    const HeadIndex at{head.reads.layer, head.reads.head};
    results.predictions.push_back(
        {at, head.loss, head.reads.question * (1.0 - head.fate.kept), head.restored.change,
         head.restored.effect, head.blame, head.reads.read,
         score_rank(*trace, request, results.budget, at, prompt.tokens, own),
         blame.drop[results.index(at)]});
  }
  return blame;
}

void judge_blame(const RescueBlame& blame, RescueResults& results) {
  results.predicted = blame.keep;
  std::vector<double> blames, gains;
  for (std::size_t i = 0; i < blame.keep.size(); ++i) {
    const RescueEffect& kept = results.keep.heads[i];
    if (!kept.is_known() || !std::isfinite(blame.keep[i])) continue;
    blames.push_back(blame.keep[i]);
    gains.push_back(kept.logprob);
  }
  // Of a few named heads it says nothing.
  results.rank_correlation =
      !results.stopped && blames.size() > 1 ? spearman(blames, gains) : HeadRoles::kUnknown;
}

}  // namespace kvloupe
