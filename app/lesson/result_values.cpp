#include "app/lesson/value_groups.h"

#include <algorithm>
#include <cmath>

#include "analysis/policy/kit/spec.h"
#include "analysis/replay/held_bytes.h"
#include "analysis/replay/measure/measure_catalog.h"
#include "app/lesson/answer.h"

namespace kvloupe::lesson {

namespace {

enum class Side { a, b };

/// The replay of a policy in the state's layer or in all; nullptr where policy B is off.
std::shared_ptr<const Replay> replay_in(const LessonState& s, Side side, bool all_layers,
                                        bool metrics, const std::string& requested,
                                        Progress& progress) {
  if (side == Side::b && !s.workspace.policy_b_on) return nullptr;
  ReplayRequest request{.policy = side == Side::a ? s.workspace.policy_a : s.workspace.policy_b,
                        .budget = s.workspace.budget.resolve(s.trace->run().prompt_length),
                        .block = s.workspace.block,
                        .compression = s.workspace.compression};
  if (!all_layers) request.layers = {s.workspace.selection.layer};
  request.metrics = metrics;
  if (!requested.empty()) request.measures = {requested};
  Progress part(progress, 0);
  return s.store->replays().get(*s.trace, request, part);
}

double measured(const LessonState& s, Side side, const std::string& name, Progress& progress) {
  const Measure& measure = require_measure(name);
  const auto replay =
      replay_in(s, side, false, true, measure.family->on_request ? name : "", progress);
  const auto& at = s.workspace.selection;
  const HeadReplay* head = replay ? replay->find(at.layer, at.head) : nullptr;
  if (head == nullptr) return kNone;
  const MeasureScope scope = measure.family->scope;
  if (scope == MeasureScope::replay || scope == MeasureScope::trace)
    return measure_of(measure, *head);
  const auto step = static_cast<std::size_t>(step_of(s, replay->blocks));
  const int own =
      at.query_head >= 0 ? at.query_head % s.trace->layer_model(at.layer).group_size() : -1;
  return measure_at(measure, head->steps.at(step), own);
}

double mean_measured(const LessonState& s, Side side, const std::string& name, Progress& progress) {
  const Measure& measure = require_measure(name);
  const auto replay =
      replay_in(s, side, true, true, measure.family->on_request ? name : "", progress);
  if (!replay) return kNone;
  const MeasureScope scope = measure.family->scope;
  const auto step = static_cast<std::size_t>(step_of(s, replay->blocks));
  double sum = 0.0;
  int known = 0;
  for (const HeadReplay& head : replay->heads) {
    const double value = scope == MeasureScope::replay || scope == MeasureScope::trace
                             ? measure_of(measure, head)
                             : measure_at(measure, head.steps.at(step));
    if (std::isnan(value)) continue;
    sum += value;
    ++known;
  }
  return known > 0 ? sum / known : kNone;
}

bool is_kept(const HeadReplay& head, int token, int step) {
  const int gone = head.evicted_at.at(static_cast<std::size_t>(token));
  return gone < 0 || gone > step;
}

/// Share of (head, token) pairs that are kept, of those tokens that have been read; over the
/// state's head or all heads.
double kept_share(const LessonState& s, Side side, bool all_heads, int first, int last,
                  Progress& progress) {
  if (first < 0) return kNone;
  const auto replay = replay_in(s, side, all_heads, false, "", progress);
  if (!replay) return kNone;
  const int step = step_of(s, replay->blocks);
  last = std::min(last, replay->blocks.at(static_cast<std::size_t>(step)).end - 1);
  long kept = 0, all = 0;
  for (const HeadReplay& head : replay->heads) {
    if (!all_heads && head.head != s.workspace.selection.head) continue;
    if (all_heads && head.shares_with >= 0) continue;  // another layer's cache, counted there
    for (int token = first; token <= last; ++token) {
      kept += is_kept(head, token, step) ? 1 : 0;
      ++all;
    }
  }
  return all > 0 ? static_cast<double>(kept) / static_cast<double>(all) : kNone;
}

double token_kept(const LessonState& s, Side side, bool all_heads, const Value& token,
                  Progress& progress) {
  const int at = index(token, s.trace->length());
  return kept_share(s, side, all_heads, at, at, progress);
}

double segment_kept(const LessonState& s, Side side, bool all_heads, const std::string& name,
                    Progress& progress) {
  const auto [first, last] = segment_of(s.trace->tokens(), name);
  return kept_share(s, side, all_heads, first, last, progress);
}

/// Entries of the state's head after its step.
double entries_kept(const LessonState& s, Side side, Progress& progress) {
  const auto replay = replay_in(s, side, false, false, "", progress);
  const auto& at = s.workspace.selection;
  const HeadReplay* head = replay ? replay->find(at.layer, at.head) : nullptr;
  if (head == nullptr) return kNone;
  return head->steps.at(static_cast<std::size_t>(step_of(s, replay->blocks))).retained;
}

/// The bytes of all caches after the last step, as a share of the full cache's in 16 bits.
double held_share(const LessonState& s, Side side, Progress& progress) {
  const auto replay = replay_in(s, side, true, false, "", progress);
  const auto held = replay ? held_bytes(*s.trace, *replay) : std::nullopt;
  return held ? held->held / held->full : kNone;
}

/// The catalogue's function from one of the state, a policy, the arguments and a progress.
template <Side side, typename Function>
constexpr auto computed_of(Function) {
  return computed([](In s, Arguments arguments, Progress& progress) {
    return Function{}(s, side, arguments, progress);
  });
}

}  // namespace

ValueGroup result_values() {
  ValueGroup group{"The policies by replay, in the selected head and step", {}};
  const auto add = [&](ValueInfo info) {
    info.of_selection = true;
    group.values.push_back(std::move(info));
  };
  // And the same of policy B.
  const auto add_both = [&](ValueInfo info, auto of) {
    info.compute = computed_of<Side::a>(of);
    add(info);
    info.name += "_b";
    info.meaning = "the same of policy B";
    info.compute = computed_of<Side::b>(of);
    add(std::move(info));
  };
  add_both(
      {.name = "measure",
       .arguments = {{Argument::measure, "measure"}},
       .meaning = "a measure of policy A, by its name in `kvloupe measures`; of one query head if "
                  "one is selected"},
      [](In s, Side side, Arguments a, Progress& p) { return measured(s, side, word(a[0]), p); });
  add_both({.name = "mean_measure",
            .arguments = {{Argument::measure, "measure"}},
            .meaning = "mean of a measure of policy A over all heads with a known value"},
           [](In s, Side side, Arguments a, Progress& p) {
             return mean_measured(s, side, word(a[0]), p);
           });
  add_both(
      {.name = "held_share",
       .meaning = "bytes that policy A's caches hold after the last step, as a share of those of "
                  "the full cache in 16 bits, over all heads"},
      [](In s, Side side, Arguments, Progress& p) { return held_share(s, side, p); });
  add_both({.name = "kept",
            .arguments = {{Argument::number, "token"}},
            .meaning = "1 if policy A keeps the token, 0 if it has evicted the token"},
           [](In s, Side side, Arguments a, Progress& p) {
             return token_kept(s, side, false, a[0], p);
           });
  add_both(
      {.name = "kept_share",
       .arguments = {{Argument::number, "token"}},
       .meaning = "share of all heads in which policy A keeps the token"},
      [](In s, Side side, Arguments a, Progress& p) { return token_kept(s, side, true, a[0], p); });
  add_both({.name = "entries", .meaning = "entries that policy A keeps in the head"},
           [](In s, Side side, Arguments, Progress& p) { return entries_kept(s, side, p); });
  add({.name = "segment_kept",
       .arguments = {{Argument::segment, "segment"}},
       .meaning = "share of the segment's tokens that policy A keeps in the head",
       .needs = "the segment",
       .compute = computed([](In s, Arguments a, Progress& p) {
         return segment_kept(s, Side::a, false, word(a[0]), p);
       })});
  add_both({.name = "needle_kept",
            .meaning = "share of the needle's tokens that policy A keeps, over all heads",
            .needs = "a segment needle"},
           [](In s, Side side, Arguments, Progress& p) {
             return segment_kept(s, side, true, "needle", p);
           });
  return group;
}

}  // namespace kvloupe::lesson
