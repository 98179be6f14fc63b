#include "analysis/replay/layer_replay.h"

#include <algorithm>
#include <map>
#include <utility>

#include "analysis/policy/kit/policy_catalog.h"
#include "analysis/replay/cache/evicting_layer.h"
#include "analysis/replay/record/state_rows.h"

namespace kvloupe {

namespace {
/// Whether the entry stays with its key and gets a bias and a value of its own: neither a set nor a
/// gift.
bool is_refit(const Merge& merge) { return merge.key.empty() && !merge.value.empty(); }

/// Whether each receiver keeps its own value and gets a part of others beside (cam): then a line
/// per giver says all.
bool is_gift(const Merge& merge) {
  const auto own = std::find(merge.from.begin(), merge.from.end(), merge.into);
  return merge.key.empty() && merge.value.empty() &&
         merge.weights[static_cast<std::size_t>(own - merge.from.begin())] == 1.0F;
}

/// How well each set's key represents its members: the merged key, or, if only values were merged,
/// the key of the entry that took them. Values that were given away have none.
std::vector<MergeMeasures> measure_merges(const HeadCache& cache, std::span<const Merge> merges) {
  std::vector<MergeMeasures> result;
  for (const Merge& merge : merges) {
    if (is_gift(merge) || is_refit(merge)) continue;
    const auto& keys = cache.view().keys;
    const float* stays = keys.data() + merge.into * keys.outerStride();
    const std::vector<float> key =
        merge.key.empty() ? std::vector<float>(stays, stays + keys.cols()) : merge.key;
    result.push_back(merge_measures(keys, merge.from, merge.weights, key));
  }
  return result;
}

/// The change that a refit makes to an entry with this value.
Refit refit_of(const Merge& merge, std::int32_t token, const MatrixView& values) {
  const auto before = values.row(merge.into).cast<double>();
  const auto after =
      Eigen::Map<const Eigen::RowVectorXf>(merge.value.data(), values.cols()).cast<double>();
  const double length = before.norm();
  const double change =
      length > 0.0 ? (after - before).norm() / length : std::numeric_limits<double>::quiet_NaN();
  return {token, merge.log_size.value_or(0.0F), static_cast<float>(change)};
}

/// Merged sets as they are, one line per giver for gifts, and refits. Rows become token indices.
/// `values`: those before the step's merges.
void record_merges(std::vector<Merge> merges, const std::vector<std::int32_t>& tokens,
                   const MatrixView& values, StepRecord& record) {
  std::map<std::int32_t, Gift> gifts;
  for (Merge& merge : merges) {
    if (is_refit(merge)) {
      record.refits.push_back(
          refit_of(merge, tokens[static_cast<std::size_t>(merge.into)], values));
      continue;
    }
    const bool gift = is_gift(merge);
    for (int& row : merge.from) row = tokens[static_cast<std::size_t>(row)];
    merge.into = tokens[static_cast<std::size_t>(merge.into)];
    if (!gift) {
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

/// Adds those of the followed tokens that are present and leave at the step.
void add_losses(std::span<const int> followed, const HeadDecision& decision,
                const std::vector<std::int32_t>& present, int step,
                std::vector<TokenLoss>& losses) {
  if (decision.kept.size() == present.size()) return;
  for (const int token : followed) {
    const auto at = std::lower_bound(present.begin(), present.end(), token);
    if (at == present.end() || *at != token) continue;
    const auto row = static_cast<std::size_t>(at - present.begin());
    if (std::binary_search(decision.kept.begin(), decision.kept.end(),
                           static_cast<std::int32_t>(row))) {
      continue;
    }
    TokenLoss loss{.token = token, .step = step};
    if (!decision.fates.empty()) loss.fate = decision.fates[row];
    if (!decision.scores.empty()) {
      loss.score = decision.scores[row];
      loss.rank = score_rank(decision.scores, row);
    }
    loss.entries = static_cast<int>(present.size());
    loss.threshold = decision.threshold;
    losses.push_back(loss);
  }
}

bool keeps_scores(const LayerReplayInput& input, int head) {
  return input.scores_head == head || input.scores_head == kEveryHead;
}
}  // namespace

std::vector<HeadReplay> replay_layer(const LayerReplayInput& input, Progress& progress) {
  const ModelInfo& model = input.context.model;
  PolicyOptions options{.always_score = input.scores_head != -1};
  const LayerDecider* decider = input.decider;
  EvictingLayer layer(input.policy, decider != nullptr ? decider->context : input.context, options);

  std::vector<HeadReplay> heads(static_cast<std::size_t>(model.num_kv_heads));
  const int tokens = input.blocks.empty() ? 0 : input.blocks.back().end;
  for (int head = 0; head < model.num_kv_heads; ++head) {
    HeadReplay& replay = heads[static_cast<std::size_t>(head)];
    replay.layer = input.context.layer;
    replay.head = head;
    replay.shares_with = model.shares_with;
    replay.reach = model.reach();
    replay.evicted_at.assign(static_cast<std::size_t>(tokens), -1);
    replay.steps.resize(input.blocks.size());
    if (keeps_scores(input, head)) {
      replay.scores.resize(input.blocks.size());
      replay.fates.resize(input.blocks.size());
    }
    if (input.metrics && input.measured_trace) {
      const auto compute = [&] {
        return measure_head({input.states, input.context, head, progress, input.tokens},
                            input.measures);
      };
      replay.trace_values = input.shared != nullptr
                                ? input.shared->of_trace(input.context.layer, head, compute)
                                : compute();
    }
  }
  const auto for_heads = [&](const std::function<void(int)>& body) {
    if (input.context.for_heads) return input.context.for_heads(model.num_kv_heads, body);
    for (int head = 0; head < model.num_kv_heads; ++head) body(head);
  };

  const LayerStates& deciding = decider != nullptr ? decider->states : input.states;
  StateRows* const streamed = decider != nullptr ? decider->rows : input.rows;
  const WholeSequence whole{deciding.queries, deciding.keys, deciding.values};
  StateRows held(deciding);
  StateRows& rows = streamed != nullptr ? *streamed : held;
  const std::size_t end =
      input.last_step < 0 ? input.blocks.size() : static_cast<std::size_t>(input.last_step) + 1;
  // Whether any entry has left a head. With a policy that stores fewer bits, the cache may change
  // at any step.
  std::vector<char> evicted(heads.size(), has_part(input.policy, PartKind::storage) ? 1 : 0);
  for (std::size_t step = 0; step < end; ++step) {
    progress.check();
    const bool last = step + 1 == input.blocks.size();
    const bool any_measured =
        input.metrics && (input.measured_steps.empty() ||
                          std::binary_search(input.measured_steps.begin(),
                                             input.measured_steps.end(), static_cast<int>(step)));
    const Block& block = input.blocks[step];
    BlockStates states;
    states.step = static_cast<int>(step);
    states.block = block;
    StateRows::Rows of_block = rows.of(block);
    states.queries = std::move(of_block.queries);
    states.keys = std::move(of_block.keys);
    states.values = std::move(of_block.values);
    if (streamed == nullptr) states.whole = &whole;
    states.last = last;
    states.acts = block.end <= input.acts_until;
    std::vector<HeadDecision> decisions = layer.step(states);
    const Matrix last_queries =
        any_measured ? token_rows(input.states.queries, block.end - 1) : Matrix();

    for_heads([&](int head) {
      HeadReplay& replay = heads[static_cast<std::size_t>(head)];
      HeadDecision& decision = decisions[static_cast<std::size_t>(head)];
      StepRecord& record = replay.steps[step];
      const HeadCache& cache = layer.head(head);
      // Before the eviction.
      if (input.on_found != nullptr) (*input.on_found)(head, states.step, cache);
      const std::vector<std::int32_t> present(cache.tokens().begin(), cache.tokens().end());
      if (decision.kept.size() < present.size()) evicted[static_cast<std::size_t>(head)] = 1;
      const bool measured = any_measured && (!input.measures.summary || last ||
                                             evicted[static_cast<std::size_t>(head)] != 0);
      record.cache_size = static_cast<int>(present.size());
      record.retained = static_cast<int>(decision.kept.size());
      record.seen = block.end - first_seen(block.end, model.reach());
      record.threshold = decision.threshold;
      record.ties = decision.ties;
      record.second_threshold = decision.second_threshold;
      record.allocation_drift = decision.allocation_drift;
      record.merge_threshold = decision.merge_threshold;
      mark_gone(decision, cache, states.step, replay.evicted_at);
      add_losses(input.followed, decision, present, states.step, replay.losses);
      if (measured) record.merge_measures = measure_merges(cache, decision.merges);
      record_merges(decision.merges, present, cache.view().values, record);
      LeavingEntries leaving;
      if (measured) leaving = leaving_entries(cache, block.end - 1, model.reach());
      layer.carry_out(head, decision);
      record.rounded = std::max(cache.stored().keys, cache.stored().values);
      if (measured) {
        MeasuredStep of({input.states, input.context, input.policy, head, states.step, block,
                         present, decision, cache, std::move(leaving), view(last_queries),
                         input.shared});
        measure_step(of, input.measures, last, record);
      }
      if (keeps_scores(input, head)) {
        replay.scores[step] = std::move(decision.scores);
        replay.fates[step] = std::move(decision.fates);
      }
    });
    progress.advance();
  }
  for (HeadReplay& head : heads) {
    std::sort(head.losses.begin(), head.losses.end(),
              [](const TokenLoss& a, const TokenLoss& b) { return a.token < b.token; });
  }
  return heads;
}

}  // namespace kvloupe
