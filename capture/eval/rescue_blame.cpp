#include "capture/eval/rescue_blame.h"

#include <cmath>
#include <optional>

#include "analysis/metric/rank_correlation.h"
#include "analysis/metric/sink.h"
#include "analysis/replay/follow.h"
#include "analysis/replay/replay.h"
#include "capture/eval/file_beside.h"
#include "capture/run/capture.h"

namespace kvloupe {

namespace {
/// The prompt and what is right after it, run with the full cache. The expected answer follows the
/// prompt, so that the queries that write it can be asked.
void capture_with_answer(const RescueRequest& request, const RescuePrompt& prompt,
                         const RescueResults& results, const std::string& target,
                         Progress& progress) {
  CaptureRequest wanted;
  wanted.model = request.model;
  wanted.tokens = prompt.sequence;
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
}  // namespace

RescueBlame predict_rescue(const RescueRequest& request, const RescuePrompt& prompt,
                           Progress& progress, RescueResults& results) {
  std::optional<FileBeside> made;  // outlives the trace in it
  std::optional<const Trace> trace;
  if (request.trace) {
    trace.emplace(*request.trace);
  } else {
    made.emplace(request.output);
    capture_with_answer(request, prompt, results, made->name(), progress);
    trace.emplace(made->without_name());
  }
  ReadsRequest reads;
  reads.tokens = prompt.tokens;
  Progress own(progress, 0);
  const std::vector<TokenReads> read = token_reads(*trace, reads, own);
  const auto followed = [&](const PolicySpec& policy, int budget) {
    ReplayRequest replayed;
    replayed.policy = policy;
    replayed.budget = budget;
    replayed.block = request.block;
    replayed.metrics = false;
    const Replay made_replay = replay(*trace, replayed, own);
    return follow(made_replay, read, prompt.tokens,
                  restored_heads(*trace, made_replay, prompt.tokens, {}, own));
  };
  const auto by_head = [&](const std::vector<FollowedHead>& heads) {
    std::vector<double> blame(results.keep.heads.size());
    for (const FollowedHead& head : heads)
      blame[results.index({head.reads.layer, head.reads.head})] = head.blame;
    return blame;
  };
  const std::vector<FollowedHead> heads = followed(request.policy, results.budget);
  results.predicted_by = blame_name(heads);
  for (const FollowedHead& head : heads) {
    results.predictions.push_back({{head.reads.layer, head.reads.head},
                                   head.loss,
                                   head.reads.question * (1.0 - head.fate.kept),
                                   head.restored.change,
                                   head.restored.effect,
                                   head.blame});
  }
  return {by_head(heads),
          by_head(followed(parse_policy(spec_dropping(prompt.tokens)), trace->length()))};
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
  results.rank_correlation = blames.size() > 1 ? spearman(blames, gains) : HeadRoles::kUnknown;
}

}  // namespace kvloupe
