#include "analysis/replay/layer_replay.h"

#include <map>
#include <utility>

#include "analysis/cache/evicting_layer.h"
#include "analysis/metric/log_determinant.h"

namespace kvloupe {

namespace {
/// The step's last query, over the cache as it stands after the step, against the whole captured
/// prefix, per query head of the group.
std::vector<QueryHeadMetrics> measure(const LayerReplayInput& input, int head, const Block& block,
                                      const HeadCache& cache) {
  const LayerStates& states = input.states;
  const int group = input.context.model.group_size();
  const auto scale = static_cast<float>(input.context.attention_scale);
  const auto index = static_cast<std::size_t>(head);
  const Eigen::Index prefix = block.end;
  const MatrixView keys = rows(view(states.keys[index]), 0, prefix);
  const MatrixView values = rows(view(states.values[index]), 0, prefix);
  std::vector<QueryHeadMetrics> result;
  Eigen::VectorXf logits(prefix);
  for (int query_head = head * group; query_head < (head + 1) * group; ++query_head) {
    const auto query = static_cast<std::size_t>(query_head);
    const Eigen::VectorXf scaled = scale * states.queries[query].row(block.end - 1).transpose();
    logits.noalias() = keys * scaled;
    const std::span<const float> all(logits.data(), static_cast<std::size_t>(prefix));
    const Matrix* weight = states.output_weights.empty() ? nullptr : &states.output_weights[query];
    if (cache.merged()) {
      const CacheView present = cache.view();
      Eigen::VectorXf own = present.keys * scaled;
      for (std::size_t i = 0; i < present.log_sizes.size(); ++i) {
        own[static_cast<Eigen::Index>(i)] += present.log_sizes[i];
      }
      result.push_back(merged_perturbation(all, cache.tokens(), values,
                                           {own.data(), static_cast<std::size_t>(own.size())},
                                           present.values, weight));
      continue;
    }
    const auto norms = [&](const std::vector<std::vector<float>>& known) {
      if (known.empty() || known[query].empty()) return std::span<const float>();
      return std::span(known[query]).first(static_cast<std::size_t>(prefix));
    };
    result.push_back(output_perturbation(all, cache.tokens(), values, weight,
                                         norms(states.value_norms_l1),
                                         norms(states.value_norms_l2)));
  }
  return result;
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
    std::vector<HeadDecision> decisions = layer.step(states);

    for_heads([&](int head) {
      HeadReplay& replay = heads[static_cast<std::size_t>(head)];
      HeadDecision& decision = decisions[static_cast<std::size_t>(head)];
      StepRecord& record = replay.steps[step];
      const HeadCache& cache = layer.head(head);
      record.cache_size = static_cast<int>(cache.tokens().size());
      record.retained = static_cast<int>(decision.kept.size());
      record.threshold = decision.threshold;
      record.ties = decision.ties;
      record.second_threshold = decision.second_threshold;
      record.allocation_drift = decision.allocation_drift;
      record.merge_threshold = decision.merge_threshold;
      mark_evicted(decision, cache.tokens(), states.step, replay.evicted_at);
      if (input.metrics) record.merge_measures = measure_merges(cache, decision.merges);
      record_merges(decision.merges, cache.tokens(), record);
      layer.carry_out(head, decision);
      if (head == input.scores_head) {
        replay.scores[step] = std::move(decision.scores);
        replay.fates[step] = std::move(decision.fates);
      }
      if (input.metrics) {
        const LogDeterminant volume = log_pseudo_determinant(cache.view().keys);
        record.log_pseudo_determinant = volume.value;
        record.rank = volume.rank;
        record.query_heads = measure(input, head, block, cache);
      }
    });
    progress.advance();
  }
  return heads;
}

}  // namespace kvloupe
