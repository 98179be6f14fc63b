#include "app/window/state/shown_results.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "analysis/replay/ask.h"
#include "analysis/replay/measure/measure_catalog.h"
#include "analysis/replay/measure_replay.h"

namespace kvloupe::window {

namespace {
constexpr int kThreads = 2;  // the whole model's and a head's
constexpr auto kRest = std::chrono::milliseconds(150);

/// Whether both are of the same trace and head (or of all layers).
bool same_subject(const figure::ReplayKey& a, const figure::ReplayKey& b) {
  return a.trace == b.trace && a.layers == b.layers && a.scores_layer == b.scores_layer &&
         a.scores_head == b.scores_head;
}
}  // namespace

ShownResults::ShownResults(const WorkspaceState& state, Results& results,
                           std::function<void()> wake)
    : state_(state), results_(results), measuring_(kThreads, std::move(wake)) {}

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

const HeadReplay* ShownResults::head_in(const Replay* replay) const {
  return replay ? replay->find(state_.selection.layer, state_.selection.head) : nullptr;
}

std::shared_ptr<const Replay> ShownResults::latest(int policy) const {
  if (of_[policy].head_now) return of_[policy].head_now;
  const auto have = of_[policy].head.held();
  const bool same = have.key.trace == trace_key_ &&
                    have.key.scores_layer == state_.selection.layer &&
                    have.key.scores_head == state_.selection.head;
  return same ? have.value : nullptr;
}

bool ShownResults::waiting() const {
  return wait_ || std::any_of(std::begin(of_), std::end(of_), [](const OfPolicy& of) {
           return of.whole.computing() || of.measured.computing();
         });
}

const StepTokens* ShownResults::tokens_of(int policy) const {
  return of_[policy].tokens.states.empty() ? nullptr : &of_[policy].tokens;
}

void ShownResults::request_replays(OfPolicy& of, const PolicySpec& policy) {
  const TracePointer open = results_.trace();
  ReplayRequest wanted{.policy = policy,
                       .budget = state_.budget.resolve(open->run().prompt_length),
                       .block = state_.block,
                       .compression = state_.compression,
                       .metrics = false};
  const ReplayRequest of_head =
      figure::request_of_head(wanted, state_.selection.layer, state_.selection.head);
  const figure::ReplayKey head_key = figure::key_of(*open, of_head);
  // A replay under way comes to its end while only the budget or the policy changes, so that a hand
  // that drags sees something; of another layer or head there is nothing to see.
  const auto rest = [](bool dragged) { return dragged ? kRest : decltype(kRest)(0); };
  of.head.request(
      results_.quick(), head_key,
      [open, of_head, replays = results_.replays()](Progress& progress, const auto&) {
        return replays->get(*open, of_head, progress);
      },
      rest(same_subject(of.head.key(), head_key)));

  wanted.background = true;
  const figure::ReplayKey all_key = figure::key_of(*open, wanted);
  const bool dragged = same_subject(of.all.held().key, all_key);
  of.all.want(all_key, dragged);
  if (of.head.computing() && !dragged) return;  // the layer that is looked at comes first
  of.all.request(
      results_.all_layers(), all_key,
      [open, wanted, replays = results_.replays()](Progress& progress, const auto& publish) {
        return replays->get(*open, wanted, progress,
                            [&](std::shared_ptr<const Replay> part) { publish(std::move(part)); });
      },
      rest(dragged), job::Computed<Replay, figure::ReplayKey>::Until::end);
}

/// Asks for everything that has a label (MeasureInfo) of the selected head.
void ShownResults::request_measures(OfPolicy& of, int step) {
  const int layer = state_.selection.layer, head = state_.selection.head;
  of.measured.request(measuring_, {of.head.key(), layer, head, step},
                      [=, trace = results_.trace(), replay = of.head_now,
                       replays = results_.replays()](Progress& progress, const auto&) {
                        MeasureRequest request{.steps = {step}, .layers = {layer}};
                        for (const Measure& measure : all_measures()) {
                          if (!measure.info->label.empty())
                            request.measures.push_back(measure.info->name);
                        }
                        request.head = head;
                        request.states = &replays->states();
                        const Replay measured = measure_replay(*trace, *replay, request, progress);
                        return measured.heads.front().steps[static_cast<std::size_t>(step)];
                      });
}

void ShownResults::request_whole(OfPolicy& of) {
  const auto work = [trace = results_.trace(), replay = of.all.whole(),
                     replays = results_.replays()](Progress& progress, const auto&) {
    WholeModel whole{.asked = asked_first(trace->tokens(), trace->run())};
    const AskOptions options{0, true, &replays->states()};
    const AskedReplay answer = ask(*trace, *replay, whole.asked, options, progress);
    whole.queries = static_cast<int>(answer.queries.size());
    whole.change = answer.residual_change;
    whole.worst_error = answer.worst_layer_error;
    if (!std::isnan(whole.worst_error)) whole.worst_layer = answer.worst_layer();
    return whole;
  };
  of.whole.request(measuring_, of.all.key(), work, kRest);
}

void ShownResults::follow_policy(int which, int now) {
  OfPolicy& of = of_[which];
  of.head_now = of.all_now = nullptr;
  if (which == 1 && !state_.policy_b_on) {
    of.head.clear();
    of.all.clear();
    of.tokens = {};
    of.tokens_of = nullptr;
    of.measured.clear();
    return of.whole.clear();
  }
  request_replays(of, which == 0 ? state_.policy_a : state_.policy_b);
  of.head_now = of.head.current();
  if (const auto all = of.all.held(); all.key.trace == trace_key_) of.all_now = all.value;
  wait_ |= of.head.computing() || of.all.computing();
  if (of.head_now && now < static_cast<int>(of.head_now->blocks.size())) {
    request_measures(of, now);
  } else {
    of.measured.clear();
  }
  if (of.all.whole()) request_whole(of);
  follow_tokens(which, now);
}

void ShownResults::follow() {
  if (!is_of_open_trace()) {
    trace_key_ = results_.trace_key();
    for (OfPolicy& of : of_) {
      of.whole.clear();
      of.tokens = {};
      of.tokens_of = nullptr;
    }
  }
  blocks_ = results_.blocks(state_);
  wait_ = false;
  const int now = step();
  for (int policy = 0; policy < 2; ++policy) follow_policy(policy, now);
  results_.compare_loops(of_[0].head_now, of_[0].head.key(), state_.selection.layer);
  follow_in_heads(now);
}

void ShownResults::follow_in_heads(int now) {
  const auto all = of_[0].all_now;
  if (state_.token_colour != "heads" || !all || all->heads.empty() ||
      all->blocks.size() != blocks_.size()) {
    in_heads_of_ = nullptr;
    return in_heads_.clear();
  }
  if (all == in_heads_of_ && now == in_heads_step_) return;
  in_heads_of_ = all;
  in_heads_step_ = now;
  in_heads_ = share_of_heads(*all, now);
}

std::pair<int, int> ShownResults::heads_keeping(int token) const {
  std::pair<int, int> count{0, 0};
  const auto at = static_cast<std::size_t>(token);
  if (!of_[0].all_now || of_[0].all_now->blocks.size() != blocks_.size()) return count;
  for (const HeadReplay& head : of_[0].all_now->heads) {
    if (head.shares_with >= 0 || at >= head.evicted_at.size()) continue;
    ++count.second;
    if (head.evicted_at[at] < 0 || head.evicted_at[at] > step()) ++count.first;
  }
  return count;
}

void ShownResults::follow_tokens(int which, int now) {
  OfPolicy& of = of_[which];
  const std::shared_ptr<const Replay> shown = latest(which);
  const HeadReplay* head = head_in(shown.get());
  if (!head || now >= static_cast<int>(shown->blocks.size())) return;
  if (shown == of.tokens_of && now == of.tokens_step && head->head == of.tokens_head) return;
  of.tokens_of = shown;
  of.tokens_step = now;
  of.tokens_head = head->head;
  of.tokens = step_tokens(*shown, *head, now);
}

}  // namespace kvloupe::window
