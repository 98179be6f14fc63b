#include "app/window/state/shown_results.h"

#include <algorithm>
#include <utility>

namespace kvloupe::window {

ShownResults::ShownResults(const WorkspaceState& state, Results& results,
                           std::function<void()> wake)
    : state_(state), results_(results), measures_(results.replays(), std::move(wake)) {}

int ShownResults::step() const {
  if (blocks_.empty()) return 0;
  if (state_.selection.step >= 0) return std::min(state_.selection.step, step_count() - 1);
  const TracePointer trace = results_.trace();
  const int prompt = trace ? trace->run().prompt_length : 0;
  int last = 0;
  for (int i = 0; i < step_count(); ++i) {
    if (blocks_[static_cast<std::size_t>(i)].first < prompt) last = i;
  }
  return last;
}

const HeadReplay* ShownResults::head_a() const {
  return focus_a_ ? focus_a_->find(state_.selection.layer, state_.selection.head) : nullptr;
}

const HeadReplay* ShownResults::head_b() const {
  return focus_b_ ? focus_b_->find(state_.selection.layer, state_.selection.head) : nullptr;
}

const StepTokens* ShownResults::tokens_of(int policy) const {
  return step_tokens_[policy].states.empty() ? nullptr : &step_tokens_[policy];
}

void ShownResults::follow() {
  if (!is_of_open_trace()) {
    trace_key_ = results_.trace_key();
    for (int policy = 0; policy < 2; ++policy) {
      measures_.drop_whole(policy);
      step_tokens_[policy] = {};
      step_tokens_key_[policy] = {};
    }
  }
  blocks_ = results_.blocks(state_);
  focus_a_ = results_.a.focus.current();
  focus_b_ = state_.policy_b_on ? results_.b.focus.current() : nullptr;
  all_a_ = results_.latest(results_.a.all, state_, true);
  all_b_ = state_.policy_b_on ? results_.latest(results_.b.all, state_, true) : nullptr;

  const int now = step();
  measures_wait_ = false;
  follow_grid(now);
  follow_head_measures(results_.a, 0, now);
  follow_head_measures(results_.b, 1, now);
  follow_whole(results_.a, 0);
  follow_whole(results_.b, 1);
  follow_tokens(results_.a, 0, now);
  follow_tokens(results_.b, 1, now);
  follow_in_heads(now);
}

void ShownResults::follow_measured_grid(const Measure& measure, int now) {
  // What later queries ask is of the whole replay.
  const int of_step = measure.family->scope == MeasureScope::queries ? -1 : now;
  const GridSubject subject{trace_key_, state_.grid_metric, of_step};
  const auto replay = results_.a.all.complete() ? results_.a.all.current() : nullptr;
  if (replay && now < static_cast<int>(replay->blocks.size())) {
    measures_.want_grid({results_.trace(), replay, results_.a.all.value_key(), now}, measure,
                        subject);
  } else if (results_.a.all.computing()) {
    measures_wait_ = true;
  }
  const std::shared_ptr<const GridValues> values = measures_.grid(subject);
  if (subject == grid_of_ && values == measured_grid_) return;
  const ModelInfo& model = results_.trace()->model();
  GridValues fresh = values ? *values : no_values(model.num_layers, model.num_kv_heads);
  // While a budget is dragged, heads that are still to come keep what they had, so that nothing
  // flickers; each is replaced as it comes.
  if (subject == grid_of_ && measures_.computing_grid()) keep_missing(fresh, grid_);
  grid_key_ = {};
  grid_of_ = subject;
  measured_grid_ = values;
  grid_ = std::move(fresh);
}

/// The numbers of the selected head at the step in hand.
void ShownResults::follow_head_measures(const PolicyResults& policy, int which, int now) {
  const auto replay = which == 0 || state_.policy_b_on ? policy.focus.current() : nullptr;
  if (!replay || now >= static_cast<int>(replay->blocks.size())) {
    measures_.drop_head(which);
    if (policy.focus.computing() && (which == 0 || state_.policy_b_on)) measures_wait_ = true;
    return;
  }
  measures_.want_head(which, {results_.trace(), replay, policy.focus.value_key(), now},
                      state_.selection.layer, state_.selection.head);
}

/// What the policy changes in the whole model.
void ShownResults::follow_whole(const PolicyResults& policy, int which) {
  if (which == 1 && !state_.policy_b_on) return measures_.drop_whole(which);
  const auto replay = policy.all.complete() ? policy.all.current() : nullptr;
  if (replay) {
    measures_.want_whole(which, {results_.trace(), replay, policy.all.value_key(), 0});
  } else if (policy.all.computing()) {
    measures_wait_ = true;
  }
}

void ShownResults::follow_grid(int now) {
  const GridMetric* metric = find_grid_metric(state_.grid_metric);
  const Measure* measure = metric != nullptr ? grid_measure(*metric, *results_.trace()) : nullptr;
  if (measure != nullptr) return follow_measured_grid(*measure, now);
  measured_grid_ = nullptr;
  const auto count = [](const auto& replay) { return replay ? replay->heads.size() : 0; };
  const std::shared_ptr<const Matrix> sinks = results_.sinks();
  const auto roles = results_.roles();
  const GridSubject subject{trace_key_, state_.grid_metric, now};
  const GridKey key{subject,
                    results_.a.all.value_key(),
                    results_.b.all.value_key(),
                    count(all_a_),
                    count(all_b_),
                    state_.policy_b_on,
                    sinks != nullptr,
                    roles ? heads_known(*roles, state_.grid_metric) : 0,
                    results_.followed()};
  if (key == grid_key_) return;
  grid_key_ = key;
  const bool same_steps = all_a_ && all_a_->blocks.size() == blocks_.size();
  const ModelInfo& model = results_.trace()->model();
  GridValues fresh = grid_values(state_.grid_metric,
                                 {same_steps ? all_a_.get() : nullptr, all_b_.get(), sinks.get(),
                                  roles.get(), &results_.followed()},
                                 model.num_layers, model.num_kv_heads, now);
  // While a budget is dragged, heads that are still to come keep what they had, so that nothing
  // flickers; each is replaced as it comes.
  if (subject == grid_of_ && results_.a.all.computing()) keep_missing(fresh, grid_);
  grid_of_ = subject;
  grid_ = std::move(fresh);
}

void ShownResults::follow_in_heads(int now) {
  if (state_.token_colour != "heads" || !all_a_ || all_a_->heads.empty() ||
      all_a_->blocks.size() != blocks_.size()) {
    return in_heads_.clear();
  }
  const TokensKey key{results_.a.all.value_key(), now, all_a_->heads.size()};
  if (key == in_heads_key_ && !in_heads_.empty()) return;
  in_heads_key_ = key;
  in_heads_ = share_of_heads(*all_a_, now);
}

std::pair<int, int> ShownResults::heads_keeping(int token) const {
  std::pair<int, int> count{0, 0};
  const auto at = static_cast<std::size_t>(token);
  if (!all_a_ || all_a_->blocks.size() != blocks_.size()) return count;
  for (const HeadReplay& head : all_a_->heads) {
    if (at >= head.evicted_at.size()) continue;
    ++count.second;
    if (head.evicted_at[at] < 0 || head.evicted_at[at] > step()) ++count.first;
  }
  return count;
}

std::optional<TokenFate> ShownResults::followed_fate(int layer, int head) const {
  const HeadReplay* found = all_a_ ? all_a_->find(layer, head) : nullptr;
  // Steps of another block are other steps.
  if (found == nullptr || results_.followed().empty() || all_a_->blocks.size() != blocks_.size()) {
    return std::nullopt;
  }
  return token_fate(*all_a_, *found, results_.followed());
}

void ShownResults::follow_tokens(const PolicyResults& policy, int which, int now) {
  const bool on = which == 0 || state_.policy_b_on;
  const auto shown = on ? results_.latest(policy.focus, state_, false) : nullptr;
  const HeadReplay* head =
      shown ? shown->find(state_.selection.layer, state_.selection.head) : nullptr;
  if (!on) {
    step_tokens_[which] = {};
    step_tokens_key_[which] = {};
  }
  if (!head || now >= static_cast<int>(shown->blocks.size())) return;
  const TokensKey key{policy.focus.value_key(), now, shown->heads.size()};
  if (key == step_tokens_key_[which]) return;
  step_tokens_key_[which] = key;
  step_tokens_[which] = step_tokens(*shown, *head, now);
}

}  // namespace kvloupe::window
