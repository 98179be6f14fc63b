#include "analysis/replay/layer_replay.h"

#include <map>
#include <utility>

#include "analysis/cache/evicting_layer.h"
#include "analysis/measure/measure_catalog.h"
#include "analysis/metric/log_determinant.h"

namespace kvloupe {

namespace {
/// The step's last query, over the cache as it stands after the step, against all that it sees of
/// the captured prefix, per query head of the group.
std::vector<QueryHeadRecord> measure(MeasuredStep& step) {
  std::vector<QueryHeadRecord> result;
  const int first = step.first_query_head();
  for (int query_head = first; query_head < first + step.group(); ++query_head) {
    const Matrix* weight = step.output_weight(query_head);
    if (step.cache().merged()) {
      result.push_back(
          {merged_perturbation(step.logits(query_head), step.kept_rows(), step.seen_values(),
                               step.cache_logits(query_head), step.cache_values(), weight),
           {}});
    } else {
      result.push_back(
          {output_perturbation(step.logits(query_head), step.kept_rows(), step.seen_values(),
                               weight, step.value_out_norms(query_head, Norm::l1),
                               step.value_out_norms(query_head, Norm::l2)),
           {}});
    }
  }
  return result;
}

/// Everything that is measured at a step, after its decision was carried out.
void fill_measures(MeasuredStep& step, std::span<const std::string> requested, StepRecord& record) {
  const LogDeterminant volume = log_pseudo_determinant(step.cache().view().keys);
  record.log_pseudo_determinant = volume.value;
  record.rank = volume.rank;
  record.query_heads = measure(step);
  measure_step(step, requested, record);
}

/// How well each merged key stands for its members. Values that were given away have none.
std::vector<MergeMeasures> measure_merges(const HeadCache& cache, std::span<const Merge> merges) {
  std::vector<MergeMeasures> result;
  for (const Merge& merge : merges) {
    if (merge.key.empty()) continue;
    result.push_back(merge_measures(cache.view().keys, merge.from, merge.weights, merge.key));
  }
  return result;
}

/// Sets as they are, and of what was given away one line per giver: rows as the tokens they stand
/// at.
void record_merges(std::vector<Merge> merges, const std::vector<std::int32_t>& tokens,
                   StepRecord& record) {
  std::map<std::int32_t, Gift> gifts;
  for (Merge& merge : merges) {
    for (int& row : merge.from) row = tokens[static_cast<std::size_t>(row)];
    merge.into = tokens[static_cast<std::size_t>(merge.into)];
    if (!merge.key.empty()) {
      merge.key = {};
      record.merges.push_back(std::move(merge));
      continue;
    }
    for (std::size_t i = 0; i < merge.from.size(); ++i) {
      if (merge.from[i] == merge.into) continue;
      Gift& gift = gifts[merge.from[i]];
      gift = {merge.from[i], gift.heirs + 1, merge.weights[i]};
    }
  }
  for (const auto& [token, gift] : gifts) record.gifts.push_back(gift);
}
}  // namespace

std::vector<HeadReplay> replay_layer(const LayerReplayInput& input, Progress& progress) {
  const ModelInfo& model = input.context.model;
  PolicyOptions options;
  options.always_score = input.scores_head >= 0;
  EvictingLayer layer(input.policy, input.context, options);

  std::vector<HeadReplay> heads(static_cast<std::size_t>(model.num_kv_heads));
  const int tokens = input.blocks.empty() ? 0 : input.blocks.back().end;
  for (int head = 0; head < model.num_kv_heads; ++head) {
    HeadReplay& replay = heads[static_cast<std::size_t>(head)];
    replay.layer = input.context.layer;
    replay.head = head;
    replay.evicted_at.assign(static_cast<std::size_t>(tokens), -1);
    replay.steps.resize(input.blocks.size());
    if (head == input.scores_head) {
      replay.scores.resize(input.blocks.size());
      replay.fates.resize(input.blocks.size());
    }
    if (input.metrics) {
      replay.trace_values =
          measure_head({input.states, input.context, head, progress}, input.measures);
    }
  }
  const auto for_heads = [&](const std::function<void(int)>& body) {
    if (input.context.for_heads) return input.context.for_heads(model.num_kv_heads, body);
    for (int head = 0; head < model.num_kv_heads; ++head) body(head);
  };

  const WholeSequence whole{input.states.queries, input.states.keys, input.states.values};
  const auto block_rows = [](const std::vector<Matrix>& states, const Block& block) {
    std::vector<MatrixView> views;
    for (const Matrix& of_head : states) {
      views.push_back(rows(view(of_head), block.first, block.size()));
    }
    return views;
  };
  for (std::size_t step = 0; step < input.blocks.size(); ++step) {
    progress.check();
    const Block& block = input.blocks[step];
    BlockStates states;
    states.step = static_cast<int>(step);
    states.block = block;
    states.queries = block_rows(input.states.queries, block);
    states.keys = block_rows(input.states.keys, block);
    states.values = block_rows(input.states.values, block);
    states.whole = &whole;
    states.last = step + 1 == input.blocks.size();
    std::vector<HeadDecision> decisions = layer.step(states);

    for_heads([&](int head) {
      HeadReplay& replay = heads[static_cast<std::size_t>(head)];
      HeadDecision& decision = decisions[static_cast<std::size_t>(head)];
      StepRecord& record = replay.steps[step];
      const HeadCache& cache = layer.head(head);
      // Before the eviction.
      const std::vector<std::int32_t> present(cache.tokens().begin(), cache.tokens().end());
      record.cache_size = static_cast<int>(present.size());
      record.retained = static_cast<int>(decision.kept.size());
      record.seen = block.end - first_seen(block.end, model.sliding_window);
      record.threshold = decision.threshold;
      record.ties = decision.ties;
      record.second_threshold = decision.second_threshold;
      record.allocation_drift = decision.allocation_drift;
      record.merge_threshold = decision.merge_threshold;
      mark_gone(decision, cache, states.step, replay.evicted_at);
      if (input.metrics) record.merge_measures = measure_merges(cache, decision.merges);
      record_merges(decision.merges, present, record);
      LeavingEntry leaving;
      if (input.metrics) leaving = leaving_entry(cache, block.end - 1, model.sliding_window);
      layer.carry_out(head, decision);
      if (input.metrics) {
        MeasuredStep measured({input.states, input.context, input.policy, head, states.step, block,
                               present, decision, cache, std::move(leaving)});
        fill_measures(measured, input.measures, record);
      }
      if (head == input.scores_head) {
        replay.scores[step] = std::move(decision.scores);
        replay.fates[step] = std::move(decision.fates);
      }
    });
    progress.advance();
  }
  return heads;
}

}  // namespace kvloupe
