#include "analysis/replay/measure_replay.h"

#include <algorithm>
#include <mutex>
#include <numeric>
#include <utility>

#include "analysis/base/core/error.h"
#include "analysis/policy/kit/sequence_tables.h"
#include "analysis/replay/ask.h"
#include "analysis/replay/cache/head_cache.h"
#include "analysis/replay/layer_loop.h"
#include "analysis/replay/layer_replay.h"
#include "analysis/replay/measure/measure_catalog.h"
#include "analysis/replay/record/layer_states.h"
#include "analysis/trace/segments.h"

namespace kvloupe {

namespace {
/// The same for all layers.
struct Measuring {
  const Trace& trace;
  const Replay& replay;
  PolicySpec policy;
  std::vector<std::string> names = {};
  MeasureChoice choice = {};  // of these names
  bool per_step = false;      // whether any of the measures has a value per step
  bool of_trace = false;
  bool reads_scores = false;
  std::vector<int> steps = {};  // ascending
  RoleTokens tokens = {};
  const SequenceTables* tables = nullptr;
  SharedMeasures* shared = nullptr;
  std::vector<char> structural = {};
};

void add_measures(const std::vector<std::string>& names, Measuring& what) {
  what.names = with_made_of(names);
  for (const std::string& name : what.names) {
    const Measure& measure = require_measure(name);
    const MeasureScope scope = measure.family->scope;
    what.per_step |= scope == MeasureScope::query_head || scope == MeasureScope::step;
    what.of_trace |= scope == MeasureScope::trace;
  }
}

/// Whether the cache after the step differs from the trace: keys or values that were merged, or
/// that lost bits.
bool merged_by(const HeadReplay& head, int step) {
  return std::any_of(head.steps.begin(), head.steps.begin() + step + 1,
                     [](const StepRecord& record) { return record.differs_from_trace(); });
}

/// The entries that the step's last query had and no later one sees; none was ever merged.
LeavingEntries leaving_entries_of(const Measuring& what, const LayerStates& states,
                                  const HeadReplay& head, int step) {
  LeavingEntries leaving;
  for (const std::int32_t token : what.replay.seen_at(head, step)) {
    if (token < what.replay.first_token(head, step)) leaving.tokens.push_back(token);
  }
  if (leaving.tokens.empty()) return leaving;
  leaving.keys = states.keys[static_cast<std::size_t>(head.head)](leaving.tokens, Eigen::all);
  return leaving;
}

/// Measures a head at a step from the kept entries in its records.
void measure_record(const Measuring& what, const LayerStates& states, const LayerContext& context,
                    const MatrixView& last_queries, int step, HeadReplay& head) {
  const Block& block = what.replay.blocks[static_cast<std::size_t>(step)];
  const MatrixView keys =
      rows(view(states.keys[static_cast<std::size_t>(head.head)]), 0, block.end);
  const std::vector<std::int32_t> present = what.replay.tokens_at(head, step);
  const std::vector<std::int32_t> retained = what.replay.retained_at(head, step);
  HeadDecision decision;
  for (std::size_t row = 0; row < present.size(); ++row) {
    const std::size_t next = decision.kept.size();
    if (next < retained.size() && retained[next] == present[row]) {
      decision.kept.push_back(static_cast<std::int32_t>(row));
    }
  }
  // A cache that took only the retained entries: the rows of a run of tokens at once.
  HeadCache cache(keys.cols(), 0, false);
  cache.reserve(std::ssize(retained));
  for (std::size_t begin = 0; begin < retained.size();) {
    std::size_t end = begin + 1;
    while (end < retained.size() && retained[end] == retained[end - 1] + 1) ++end;
    const Block run{retained[begin], retained[end - 1] + 1};
    cache.append(run, rows(keys, run.first, run.size()),
                 MatrixView(nullptr, 0, 0, Eigen::OuterStride<>(0)));
    begin = end;
  }
  MeasuredStep measured({states, context, what.policy, head.head, step, block, present, decision,
                         cache, leaving_entries_of(what, states, head, step), last_queries,
                         what.shared});
  const bool last = step + 1 == static_cast<int>(what.replay.blocks.size());
  measure_step(measured, what.choice, last, head.steps[static_cast<std::size_t>(step)]);
}

/// Takes the values of a replay of the same layer.
void take_values(std::vector<HeadReplay>& heads, std::vector<HeadReplay> replayed,
                 const std::vector<int>& steps) {
  for (HeadReplay& head : heads) {
    HeadReplay& from = replayed[static_cast<std::size_t>(head.head)];
    for (const int step : steps) {
      StepRecord& record = head.steps[static_cast<std::size_t>(step)];
      StepRecord& measured = from.steps[static_cast<std::size_t>(step)];
      record.values = std::move(measured.values);
      record.query_heads = std::move(measured.query_heads);
      record.merge_measures = std::move(measured.merge_measures);
    }
  }
}

/// Measures a head of the trace alone.
void measure_trace(const Measuring& what, const LayerStates& states, const LayerContext& context,
                   HeadReplay& head, Progress& progress) {
  const auto compute = [&] {
    return measure_head({states, context, head.head, progress, &what.tokens}, what.choice);
  };
  head.trace_values =
      what.shared != nullptr ? what.shared->of_trace(context.layer, head.head, compute) : compute();
}

/// Whether the records do not say all, so that the layer must be replayed.
bool needs_replay(const Measuring& what, const std::vector<HeadReplay>& heads) {
  return what.per_step && !what.steps.empty() &&
         (what.reads_scores || std::any_of(heads.begin(), heads.end(), [&](const HeadReplay& head) {
            return merged_by(head, what.steps.back());
          }));
}

void measure_layer(const Measuring& what, int layer, const MeasureRequest& request,
                   const HeadLoop& for_heads, std::vector<HeadReplay>& heads, Progress& progress) {
  LayerContext context{.layer = layer,
                       .model = what.trace.layer_model(layer),
                       .attention = what.trace.attention(layer),
                       .budget = what.replay.budget,
                       .prompt_length = what.trace.run().prompt_length,
                       .structural = what.structural.empty() ? nullptr : &what.structural,
                       .for_heads = for_heads,
                       .sequence = what.tables,
                       .progress = &progress};
  if (!what.per_step && !what.of_trace) return;  // what is asked by later queries comes afterwards
  const StateParts parts = parts_read(what.choice, what.policy);
  if (needs_replay(what, heads)) {
    const auto states = layer_states(request.states, what.trace, layer, parts.with({}), progress);
    context.output_weights = states->output_weights;
    if (what.of_trace) {
      for_heads(static_cast<int>(heads.size()), [&](int i) {
        measure_trace(what, *states, context, heads[static_cast<std::size_t>(i)], progress);
      });
    }
    Progress part(progress, 0);
    LayerReplayInput input{*states, what.replay.blocks, what.policy, context};
    const DecidingLayer deciding(what.trace, layer, request.states, context, progress);
    input.decider = deciding.get();
    input.measures = what.choice;
    input.measured_steps = what.steps;
    input.last_step = what.steps.back();
    input.measured_trace = false;
    input.acts_until = what.replay.acts_until;
    input.shared = what.shared;
    return take_values(heads, replay_layer(input, part), what.steps);
  }
  const HeadStates states(request.states, what.trace, layer, parts, request.most_layer_bytes,
                          progress);
  std::vector<Matrix> queries;  // [steps] of [Hq,d]: of the last token
  for (const int step : what.per_step ? what.steps : std::vector<int>()) {
    const int last = what.replay.blocks[static_cast<std::size_t>(step)].end - 1;
    queries.push_back(states.queries_of_token(last));
  }
  for_heads(static_cast<int>(heads.size()), [&](int i) {
    HeadReplay& head = heads[static_cast<std::size_t>(i)];
    const std::shared_ptr<const LayerStates> own = states.of(head.head);
    LayerContext of_head = context;
    of_head.output_weights = own->output_weights;
    if (what.of_trace) measure_trace(what, *own, of_head, head, progress);
    for (std::size_t step = 0; step < queries.size(); ++step) {
      progress.check();
      if (what.choice.summary && what.steps[step] < static_cast<int>(first_measured_step(head))) {
        continue;
      }
      measure_record(what, *own, of_head, view(queries[step]), what.steps[step], head);
    }
  });
}

/// The steps asked for, ascending, none twice; all where a measure is made of all.
std::vector<int> steps_of(const MeasureRequest& request, const Replay& replay) {
  const int count = static_cast<int>(replay.blocks.size());
  std::vector<int> steps = request.steps;
  const bool all = std::any_of(
      request.measures.begin(), request.measures.end(),
      [](const std::string& name) { return !require_measure(name).info->made_of.empty(); });
  if (steps.empty() || all) {
    steps.resize(replay.blocks.size());
    std::iota(steps.begin(), steps.end(), 0);
  }
  std::sort(steps.begin(), steps.end());
  steps.erase(std::unique(steps.begin(), steps.end()), steps.end());
  if (!steps.empty() && (steps.front() < 0 || steps.back() >= count)) {
    throw UsageError("step " + std::to_string(steps.front() < 0 ? steps.front() : steps.back()) +
                     ": the replay has steps 0 to " + std::to_string(count - 1));
  }
  return steps;
}

/// Copies of the heads asked for, by layer.
std::vector<std::vector<HeadReplay>> heads_of(const MeasureRequest& request, const Replay& replay) {
  std::vector<std::vector<HeadReplay>> layers;
  for (const HeadReplay& head : replay.heads) {
    if (request.head >= 0 && head.head != request.head) continue;
    if (!request.layers.empty() && std::find(request.layers.begin(), request.layers.end(),
                                             head.layer) == request.layers.end()) {
      continue;
    }
    if (layers.empty() || layers.back().front().layer != head.layer) layers.emplace_back();
    layers.back().push_back(head);
  }
  return layers;
}
}  // namespace

Replay measure_replay(const Trace& trace, const Replay& replay, const MeasureRequest& request,
                      Progress& progress,
                      const std::function<void(const std::vector<HeadReplay>&)>& on_layer) {
  Measuring what{.trace = trace, .replay = replay, .policy = parse_policy(replay.policy)};
  what.structural = structural_tokens(trace.tokens());
  what.tokens = role_tokens(trace.tokens(), trace.run());
  const SequenceTables tables(trace, known_end(trace, replay.acts_until), &progress);
  what.tables = &tables;
  add_measures(request.measures, what);
  what.choice = {false, what.names, request.summary};
  what.shared = request.shared;
  what.reads_scores = reads_scores(what.choice, what.policy);
  what.steps = steps_of(request, replay);
  Replay result;
  result.policy = replay.policy;
  result.budget = replay.budget;
  result.block = replay.block;
  result.compression = replay.compression;
  result.acts_until = replay.acts_until;
  result.blocks = replay.blocks;
  result.notes = replay.notes;
  std::vector<std::vector<HeadReplay>> layers = heads_of(request, replay);
  // Later queries see the whole text, the measures of steps a few: asking takes most of the time.
  constexpr long kAskedPerLayer = 8;
  const long asked = kAskedPerLayer * std::ssize(layers) * std::ssize(asked_by(what.choice));
  progress.set_total(std::ssize(layers) + asked);
  if (asked == 0) progress.count("layers", std::ssize(layers));
  std::mutex reporting;
  LayerLoop loop{request.threads, request.background};
  if (std::any_of(layers.begin(), layers.end(),
                  [&](const auto& heads) { return needs_replay(what, heads); })) {
    const StateParts held = parts_read(what.choice, what.policy).with({});
    loop.most_at_once = layers_at_once(layer_bytes(trace, held), request.most_layer_bytes);
  }
  for_layers(layers.size(), loop, [&](std::size_t index, const HeadLoop& for_heads) {
    progress.check();
    std::vector<HeadReplay>& heads = layers[index];
    measure_layer(what, heads.front().layer, request, for_heads, heads, progress);
    progress.advance();
    if (on_layer) {
      const std::lock_guard lock(reporting);
      on_layer(heads);
    }
  });
  for (std::vector<HeadReplay>& layer : layers) {
    for (HeadReplay& head : layer) result.heads.push_back(std::move(head));
  }
  Progress asking(progress, asked);
  ask(trace, what.choice, {request.threads, request.background, request.states}, asking, result);
  return result;
}

}  // namespace kvloupe
