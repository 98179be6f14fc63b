#include "analysis/replay/cache/evicting_layer.h"

#include <numeric>
#include <utility>

#include "analysis/policy/kit/composed_policy.h"
#include "analysis/policy/kit/policy_catalog.h"
#include "analysis/policy/kit/sequence_tables.h"

namespace kvloupe {

EvictingLayer::EvictingLayer(const PolicySpec& policy, const LayerContext& context,
                             PolicyOptions options, Positions positions)
    : policy_(make_layer_policy(policy, context, options)),
      quantisation_(quantisation_of(policy)),
      values_are_keys_(context.model.value_is_key_prefix),
      group_size_(context.model.group_size()),
      reach_(context.model.reach()),
      attention_(context.model, context.attention, context.for_heads) {
  const bool with_values = policy_->needs_values() || policy_->merges() || quantisation_;
  for (int head = 0; head < context.model.num_kv_heads; ++head) {
    heads_.emplace_back(context.model.head_dim, context.model.value_width(), with_values);
  }
  if (positions == Positions::original) {
    // Other replays of the trace have no quantised entries.
    if (context.sequence != nullptr && !quantisation_)
      attention_.share(context.layer, context.sequence->shared());
    return;
  }
  turns_ = std::make_unique<PlaceTurns>(context.model);
  keys_.resize(heads_.size());
  queries_.resize(static_cast<std::size_t>(context.model.num_heads));
}

int EvictingLayer::append(const BlockStates& states) {
  const int end = states.block.end;
  // No query follows the last token: what it sees itself is still there.
  const int asking = states.last && reach_.chunk > 0 ? end - 1 : end;
  const int first = states.last && end <= reach_.window ? 0 : first_seen(asking, reach_);
  if (first > 0 && states.acts) {
    std::vector<CacheView> caches;
    std::vector<int> counts;
    for (const HeadCache& head : heads_) {
      caches.push_back(head.view());
      counts.push_back(head.count_before(first));
    }
    policy_->forget_first(caches, counts);
  }
  const MatrixView none(nullptr, 0, 0, Eigen::OuterStride<>(0));
  for (std::size_t head = 0; head < heads_.size(); ++head) {
    HeadCache& cache = heads_[head];
    cache.append(states.block, states.keys[head],
                 states.values.empty() ? none : states.values[head]);
    if (first > 0) cache.hide_first(cache.count_before(first));
  }
  return first;
}

std::vector<HeadDecision> EvictingLayer::step(const BlockStates& states) {
  const int first = append(states);
  if (!states.acts) {
    policy_.reset();  // it may not act again, nor hear of entries that it has not seen
    return kept_whole();
  }
  StepView view{states.step, states.block, first, {}, states.queries, &attention_, states.whole};
  whole_.clear();
  for (const HeadCache& head : heads_) {
    view.caches.push_back(head.view());
    whole_.push_back(head.whole());
  }
  begin_attention(view);
  return policy_->step(view);
}

std::vector<HeadDecision> EvictingLayer::kept_whole() const {
  std::vector<HeadDecision> decisions(heads_.size());
  for (std::size_t head = 0; head < heads_.size(); ++head) {
    decisions[head].kept.resize(heads_[head].tokens().size());
    std::iota(decisions[head].kept.begin(), decisions[head].kept.end(), 0);
  }
  return decisions;
}

void EvictingLayer::begin_attention(const StepView& view) {
  if (!turns_) {
    std::vector<int> hidden;
    for (const HeadCache& head : heads_) hidden.push_back(head.hidden());
    return attention_.begin(whole_, view.queries, std::move(hidden));
  }
  // Compact positions know no window: a run refuses sequences that are longer (check_positions).
  attended_.clear();
  attending_.clear();
  for (std::size_t head = 0; head < heads_.size(); ++head) {
    const CacheView& cache = view.caches[head];
    turns_->turn_last(cache.keys, cache.tokens, keys_[head]);
    attended_.push_back({cache.tokens, kvloupe::view(keys_[head]), cache.values, cache.log_sizes});
  }
  for (std::size_t query_head = 0; query_head < queries_.size(); ++query_head) {
    const CacheView& cache = view.caches[query_head / static_cast<std::size_t>(group_size_)];
    turns_->turn_last(view.queries[query_head], cache.tokens, queries_[query_head]);
    attending_.push_back(kvloupe::view(queries_[query_head]));
  }
  attention_.begin(attended_, attending_);
}

RoundedRows EvictingLayer::carry_out(int head, const HeadDecision& decision) {
  HeadCache& cache = heads_[static_cast<std::size_t>(head)];
  cache.merge(decision.merges);
  cache.keep(decision.kept);
  if (!quantisation_) return {};
  const Block rows = cache.unquantised(*quantisation_);
  if (rows.size() == 0) return {};
  if (auto* policy = dynamic_cast<SeesRewrites*>(policy_.get())) {
    policy->rewrite(cache.view(), head, rows.first, rows.end);
  }
  return cache.quantise(*quantisation_, values_are_keys_);
}

EvictingLayer::State EvictingLayer::state(bool acts) const {
  return {acts && policy_ ? policy_->copy() : nullptr, heads_};
}

void EvictingLayer::go_on_from(const State& state) {
  policy_ = state.policy ? state.policy->copy() : nullptr;
  heads_ = state.heads;
}

void mark_gone(const HeadDecision& decision, const HeadCache& cache, int step,
               std::vector<std::int32_t>& evicted_at) {
  const CacheView whole = cache.whole();
  for (const std::int32_t token : whole.tokens.first(static_cast<std::size_t>(cache.hidden()))) {
    evicted_at[static_cast<std::size_t>(token)] = step;
  }
  const std::span<const std::int32_t> tokens = cache.tokens();
  std::size_t next = 0;
  for (std::size_t row = 0; row < tokens.size(); ++row) {
    if (next < decision.kept.size() && static_cast<std::size_t>(decision.kept[next]) == row) {
      ++next;
    } else {
      evicted_at[static_cast<std::size_t>(tokens[row])] = step;
    }
  }
}

}  // namespace kvloupe
