#include "analysis/policy/kit/composed_policy.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <stdexcept>
#include <utility>

#include "analysis/base/core/error.h"
#include "analysis/math/numeric/float_rows.h"
#include "analysis/policy/kit/known_scores.h"

namespace kvloupe {

namespace {
void keep_everything(HeadDecision& decision, std::size_t n) {
  decision.kept.resize(n);
  std::iota(decision.kept.begin(), decision.kept.end(), 0);
}

/// Places that an allocation gives away beyond the layer's budget. If a window took more entries of
/// one head than of another, equal shares leave places empty: the allocation did not cause that.
int drift_of(const std::vector<int>& quotas, const StepView& view, int budget) {
  const int drift =
      std::accumulate(quotas.begin(), quotas.end(), 0) - budget * static_cast<int>(quotas.size());
  if (view.first_token == 0) return drift;
  for (std::size_t head = 0; head < quotas.size(); ++head) {
    if (quotas[head] != std::min(budget, static_cast<int>(view.caches[head].tokens.size()))) {
      return drift;
    }
  }
  return 0;
}
}  // namespace

PolicyStages::PolicyStages(const PolicyStages& other)
    : score(other.score->copy()),
      protection(other.protection),
      layer_budget(other.layer_budget),
      allocation(other.allocation->copy()),
      selection(other.selection->copy()),
      merging(score->merging()),
      removals(other.removals),
      schedule(other.schedule) {
  if (!merging && other.merging) merging = other.merging->copy();
  link();
}

void PolicyStages::link() const {
  auto* needs = dynamic_cast<NeedsKnownScores*>(allocation.get());
  if (needs == nullptr) return;
  auto* knows = dynamic_cast<KnowsScores*>(score.get());
  if (knows == nullptr) throw std::logic_error("policy: a score that is not known beforehand");
  needs->by(*knows);
}

ComposedPolicy::ComposedPolicy(std::string name, const LayerContext& context, PolicyOptions options,
                               PolicyStages stages)
    : name_(std::move(name)),
      layer_(context.layer),
      for_heads_(context.for_heads),
      options_(options),
      budget_(context.budget),
      prompt_length_(context.prompt_length),
      stages_(std::move(stages)) {
  stages_.protection = stages_.protection.with(stages_.score->protection());
  stages_.score->set_protection(stages_.protection);
  if (!for_heads_) {
    for_heads_ = [](int count, const std::function<void(int)>& body) {
      for (int i = 0; i < count; ++i) body(i);
    };
  }
}

void ComposedPolicy::forget_first(const std::vector<CacheView>& caches,
                                  std::span<const int> counts) {
  const StepView view{0, {}, 0, caches, {}, nullptr, nullptr};
  for (std::size_t head = 0; head < counts.size(); ++head) {
    if (counts[head] == 0) continue;
    HeadDecision rest;
    rest.kept.resize(caches[head].tokens.size() - static_cast<std::size_t>(counts[head]));
    std::iota(rest.kept.begin(), rest.kept.end(), counts[head]);
    const int index = static_cast<int>(head);
    stages_.score->retain(view, index, rest);
    stages_.selection->retain(view, index, rest);
    if (stages_.merging) stages_.merging->retain(view, index, rest);
  }
}

std::vector<HeadDecision> ComposedPolicy::step(const StepView& view) {
  const int heads = static_cast<int>(view.caches.size());
  std::vector<HeadDecision> decisions(view.caches.size());
  for_heads_(heads, [&](int head) {
    const CacheView& cache = view.caches[static_cast<std::size_t>(head)];
    check_rows(view, cache.keys, "key of head " + std::to_string(head));
    check_rows(view, cache.values, "value of head " + std::to_string(head));
    stages_.score->observe(view, head);
    if (stages_.merging) stages_.merging->observe(view, head);
  });

  const int budget =
      stages_.layer_budget ? stages_.layer_budget(view.block.end - view.first_token) : budget_;
  const bool evict = evicts(view, budget);
  std::vector<std::vector<float>> scores(view.caches.size());
  if (evict || options_.always_score) {
    stages_.score->prepare(view, budget);
    for_heads_(heads, [&](int head) {
      if (view.caches[static_cast<std::size_t>(head)].tokens.empty()) return;
      auto& own = scores[static_cast<std::size_t>(head)];
      own = stages_.score->score(view, head);
      check_scores(view, head, own);
    });
  }
  std::vector<std::vector<std::int32_t>> dropped;  // [Hk]: rows
  for (int head = 0; head < heads; ++head) {
    const auto& tokens = view.caches[static_cast<std::size_t>(head)].tokens;
    dropped.push_back(removed_rows(stages_.removals, head, tokens));
  }
  std::vector<int> quotas;
  int drift = 0;
  if (evict) {
    quotas = this->quotas(view, scores, dropped, budget);
    if (stages_.allocation->bounded()) drift = drift_of(quotas, view, budget);
  }

  for_heads_(heads, [&](int head) {
    const auto index = static_cast<std::size_t>(head);
    HeadDecision& decision = decisions[index];
    const std::span<const std::int32_t> tokens = view.caches[index].tokens;
    decision.scores = std::move(scores[index]);
    decision.allocation_drift = drift;
    const int n = static_cast<int>(tokens.size());
    const int quota = evict ? quotas[index] : n;
    std::vector<std::int32_t> others;  // what is dropped is not beside the budget
    for (std::size_t row = 0; row < tokens.size(); ++row) {
      if (!std::binary_search(dropped[index].begin(), dropped[index].end(),
                              static_cast<std::int32_t>(row))) {
        others.push_back(tokens[row]);
      }
    }
    const int extra = stages_.protection.count_extra(head, others);
    if (quota + extra >= n && dropped[index].empty()) {
      keep_everything(decision, tokens.size());
    } else {
      const int room = stages_.allocation->protectable(quota, budget);
      decision.fates = stages_.protection.fates(head, tokens, room);
      for (const std::int32_t row : dropped[index]) {
        decision.fates[static_cast<std::size_t>(row)] = Fate::dropped;
      }
      decide(view, head, quota + extra, decision);
    }
    stages_.score->retain(view, head, decision);
    stages_.selection->retain(view, head, decision);
    if (stages_.merging) stages_.merging->retain(view, head, decision);
  });
  return decisions;
}

void ComposedPolicy::rewrite(const CacheView& cache, int head, int first, int end) {
  // To the parts this is as if each of these entries were merged with itself alone.
  HeadDecision decision;
  decision.kept.resize(cache.tokens.size());
  std::iota(decision.kept.begin(), decision.kept.end(), 0);
  for (int row = first; row < end; ++row) {
    Merge& merge = decision.merges.emplace_back();
    merge.into = row;
    merge.from = {row};
    merge.weights = {1.0F};
    const float* key = cache.keys.data() + row * cache.keys.outerStride();
    merge.key.assign(key, key + cache.keys.cols());
  }
  StepView view;
  for (int other = 0; other <= head; ++other) view.caches.push_back(cache);  // the last is read
  stages_.score->retain(view, head, decision);
  stages_.selection->retain(view, head, decision);
}

bool ComposedPolicy::evicts(const StepView& view, int budget) const {
  const Schedule& schedule = stages_.schedule;
  if (!schedule.acts(view.block, prompt_length_)) return false;
  if (schedule.slack == 0) return stages_.allocation->over_budget(view, budget);
  // Entries kept beside the budget do not count towards it.
  int beside = std::numeric_limits<int>::max();
  for (std::size_t head = 0; head < view.caches.size(); ++head) {
    beside = std::min(
        beside, stages_.protection.count_extra(static_cast<int>(head), view.caches[head].tokens));
  }
  return stages_.allocation->over_budget(view, budget + schedule.slack + beside);
}

std::vector<int> ComposedPolicy::quotas(const StepView& view,
                                        const std::vector<std::vector<float>>& scores,
                                        const std::vector<std::vector<std::int32_t>>& dropped,
                                        int budget) const {
  const auto ask = [&](const std::vector<std::vector<float>>& of) {
    return stages_.allocation->quotas(view, of, stages_.protection, budget);
  };
  if (stages_.removals.empty()) return ask(scores);
  std::vector<std::vector<float>> others = scores;
  for (std::size_t head = 0; head < dropped.size(); ++head) {
    for (const std::int32_t row : dropped[head]) {
      others[head][static_cast<std::size_t>(row)] = -std::numeric_limits<float>::infinity();
    }
  }
  return ask(others);
}

void ComposedPolicy::decide(const StepView& view, int head, int quota,
                            HeadDecision& decision) const {
  std::vector<Fate>& fates = decision.fates;
  const auto mark_absorbed = [&](const Merge& merge, Fate fate) {
    for (const int row : merge.from) {
      if (row != merge.into) fates[static_cast<std::size_t>(row)] = fate;
    }
  };
  const auto unprotected = std::count(fates.begin(), fates.end(), Fate::evicted);
  const auto dropped = std::count(fates.begin(), fates.end(), Fate::dropped);
  const int is_protected = static_cast<int>(fates.size()) - static_cast<int>(unprotected + dropped);
  const bool too_many = is_protected + unprotected > quota;
  if (stages_.merging && too_many) stages_.merging->sets(view, head, quota, decision);
  for (const Merge& merge : decision.merges) mark_absorbed(merge, Fate::merged);
  const auto left = std::count(fates.begin(), fates.end(), Fate::evicted);
  if (is_protected + left <= quota) {
    std::replace(fates.begin(), fates.end(), Fate::evicted, Fate::by_score);
  } else {
    stages_.selection->select(view, head, quota - is_protected, stages_.score->rows_summed(view),
                              decision);
    std::erase_if(decision.merges, [&](const Merge& merge) {
      if (fates[static_cast<std::size_t>(merge.into)] != Fate::evicted) return false;
      mark_absorbed(merge, Fate::evicted);
      return true;
    });
  }
  for (std::size_t row = 0; row < fates.size(); ++row) {
    const Fate fate = fates[row];
    if (fate != Fate::evicted && fate != Fate::merged && fate != Fate::dropped) {
      decision.kept.push_back(static_cast<std::int32_t>(row));
    }
  }
  if (!stages_.merging) return;
  for (Merge& merge : stages_.merging->gifts(view, head, decision)) {
    mark_absorbed(merge, Fate::merged);
    decision.merges.push_back(std::move(merge));
  }
}

void ComposedPolicy::check_rows(const StepView& view, const MatrixView& rows,
                                const std::string& what) const {
  const auto d = static_cast<std::size_t>(rows.cols());
  for (Eigen::Index row = std::max<Eigen::Index>(rows.rows() - view.block.size(), 0);
       row < rows.rows(); ++row) {
    if (all_finite(rows.data() + row * rows.outerStride(), d)) continue;
    throw WorkError(name_ + ": the " + what + " of layer " + std::to_string(layer_) + ", token " +
                    std::to_string(view.block.end - static_cast<int>(rows.rows() - row)) +
                    " at step " + std::to_string(view.step) +
                    " has a number that is not finite; check the trace's states");
  }
}

void ComposedPolicy::check_scores(const StepView& view, int head,
                                  const std::vector<float>& scores) const {
  const auto wrong =
      std::find_if(scores.begin(), scores.end(), [](float score) { return !std::isfinite(score); });
  if (wrong == scores.end()) return;
  // A query that is not a number spoils them all: then it is named, not the first of them.
  const std::size_t group = view.queries.size() / view.caches.size();
  for (std::size_t i = 0; i < group; ++i) {
    const std::size_t query_head = static_cast<std::size_t>(head) * group + i;
    check_rows(view, view.queries[query_head], "query of query head " + std::to_string(query_head));
  }
  const auto row = static_cast<std::size_t>(wrong - scores.begin());
  throw WorkError(name_ + ": the score of layer " + std::to_string(layer_) + ", head " +
                  std::to_string(head) + ", token " +
                  std::to_string(view.caches[static_cast<std::size_t>(head)].tokens[row]) +
                  " at step " + std::to_string(view.step) +
                  " is not a finite number; check the trace's states");
}

std::vector<std::int32_t> removed_rows(const std::vector<TokenRule>& rules, int head,
                                       std::span<const std::int32_t> tokens) {
  std::vector<std::int32_t> rows;
  for (std::size_t row = 0; row < tokens.size() && !rules.empty(); ++row) {
    if (std::any_of(rules.begin(), rules.end(),
                    [&](const TokenRule& rule) { return rule.names(head, tokens[row]); })) {
      rows.push_back(static_cast<std::int32_t>(row));
    }
  }
  if (!rows.empty() && rows.size() == tokens.size()) rows.pop_back();
  return rows;
}

std::vector<HeadDecision> PolicyWithRemovals::step(const StepView& view) {
  std::vector<HeadDecision> decisions = inner_->step(view);
  for (std::size_t head = 0; head < decisions.size(); ++head) {
    const std::span<const std::int32_t> tokens = view.caches[head].tokens;
    const std::vector<std::int32_t> rows = removed_rows(rules_, static_cast<int>(head), tokens);
    if (rows.empty()) continue;
    HeadDecision& decision = decisions[head];
    std::erase_if(decision.kept, [&](std::int32_t row) {
      return std::binary_search(rows.begin(), rows.end(), row);
    });
    decision.fates.assign(tokens.size(), Fate::by_score);
    for (const std::int32_t row : rows) {
      decision.fates[static_cast<std::size_t>(row)] = Fate::dropped;
    }
  }
  return decisions;
}

}  // namespace kvloupe
