#include "analysis/replay/ask.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <mutex>

#include "analysis/measure/measure_catalog.h"
#include "analysis/metric/logit_path.h"
#include "analysis/policy/kit/sequence_tables.h"
#include "analysis/record/head_states.h"
#include "analysis/replay/layer_loop.h"
#include "analysis/replay/layer_replay.h"

namespace kvloupe {

namespace {
/// The places of one layer's heads in the replay, by head.
struct AskedHeads {
  int layer = 0;
  std::vector<std::size_t> places;
};

std::vector<AskedHeads> layers_of(const Replay& replay) {
  std::vector<AskedHeads> layers;
  for (std::size_t i = 0; i < replay.heads.size(); ++i) {
    const int layer = replay.heads[i].layer;
    if (layers.empty() || layers.back().layer != layer) layers.push_back({layer, {}});
    layers.back().places.push_back(i);
  }
  return layers;
}

/// The queries of one step: [first, first + count) of those asked.
struct OfStep {
  int step = 0;
  std::size_t first = 0, count = 0;
};

std::vector<OfStep> by_step(const std::vector<int>& queries, const std::vector<Block>& blocks) {
  std::vector<OfStep> steps;
  std::size_t next = 0;
  for (std::size_t step = 0; step < blocks.size() && next < queries.size(); ++step) {
    OfStep of{static_cast<int>(step), next, 0};
    while (next < queries.size() && queries[next] < blocks[step].end) ++next;
    of.count = next - of.first;
    if (of.count > 0) steps.push_back(of);
  }
  return steps;
}

bool merges(const HeadReplay& head) {
  return std::any_of(head.steps.begin(), head.steps.end(), [](const StepRecord& step) {
    return !step.merges.empty() || !step.gifts.empty();
  });
}

/// Entries that a step's queries find: what had not left before the step.
std::vector<std::int32_t> found_at(const HeadReplay& head, int step, const Block& block) {
  std::vector<std::int32_t> tokens;
  for (std::int32_t token = 0; token < block.end; ++token) {
    const std::int32_t left = head.evicted_at[static_cast<std::size_t>(token)];
    if (left < 0 || left >= step) tokens.push_back(token);
  }
  return tokens;
}

/// The same for all layers.
struct Asking {
  const Trace& trace;
  const Replay& replay;
  PolicySpec policy;
  std::vector<OfStep> steps;
  const SequenceTables& tables;
};

/// Adds the caches as the policy's own replay of the layer has them.
void add_replayed(const Asking& what, const LayerStates& states, const LayerContext& context,
                  const std::vector<char>& wanted, AskedLayer& asked, Progress& progress) {
  const std::function<void(int, int, const HeadCache&)> on_found = [&](int head, int step,
                                                                       const HeadCache& cache) {
    const auto of = std::find_if(what.steps.begin(), what.steps.end(),
                                 [&](const OfStep& one) { return one.step == step; });
    if (of == what.steps.end() || wanted[static_cast<std::size_t>(head)] == 0) return;
    const CacheView held = cache.whole();
    asked.add(head, of->first, of->count, {held.tokens, cache.merged() ? &held : nullptr});
  };
  Progress part(progress, 0);
  LayerReplayInput input{states, what.replay.blocks, what.policy, context};
  input.metrics = false;
  input.last_step = what.steps.back().step;
  input.acts_until = what.replay.acts_until;
  input.on_found = &on_found;
  replay_layer(input, part);
}

struct LayerAnswer {
  Eigen::MatrixXd output, change;  // of a whole layer; else empty
};

LayerAnswer ask_layer(const Asking& what, const AskedHeads& heads, const std::vector<int>& queries,
                      const Eigen::MatrixXd& gradients, const AskOptions& options,
                      const HeadLoop& for_heads, AskedReplay& result, Progress& progress) {
  const auto states = layer_states(options.states, what.trace, heads.layer, StateParts(), progress);
  LayerContext context;
  context.layer = heads.layer;
  context.model = what.trace.layer_model(heads.layer);
  context.attention = what.trace.attention(heads.layer);
  context.budget = what.replay.budget;
  context.output_weights = states->output_weights;
  context.for_heads = for_heads;
  context.sequence = &what.tables;
  context.progress = &progress;
  AskedLayer asked(*states, context, queries, &gradients);
  const bool merged = std::any_of(heads.places.begin(), heads.places.end(), [&](std::size_t place) {
    return merges(what.replay.heads[place]);
  });
  if (merged) {
    std::vector<char> wanted(static_cast<std::size_t>(context.model.num_kv_heads), 0);
    for (const std::size_t place : heads.places) {
      wanted[static_cast<std::size_t>(what.replay.heads[place].head)] = 1;
    }
    add_replayed(what, *states, context, wanted, asked, progress);
  } else {
    for_heads(static_cast<int>(heads.places.size()), [&](int i) {
      const HeadReplay& head = what.replay.heads[heads.places[static_cast<std::size_t>(i)]];
      for (const OfStep& of : what.steps) {
        progress.check();
        const Block& block = what.replay.blocks[static_cast<std::size_t>(of.step)];
        const std::vector<std::int32_t> found = found_at(head, of.step, block);
        asked.add(head.head, of.first, of.count, {found});
      }
    });
  }
  for (const std::size_t place : heads.places) {
    result.heads[place] = asked.head(what.replay.heads[place].head);
  }
  if (static_cast<int>(heads.places.size()) < context.model.num_kv_heads) return {};
  return {asked.output(), asked.change()};
}

double quotient(const Eigen::MatrixXd& change, const Eigen::MatrixXd& output) {
  const double whole = output.squaredNorm();
  return whole > 0.0 ? std::sqrt(change.squaredNorm() / whole) : AskedReplay::kUnknown;
}
}  // namespace

Eigen::MatrixXd next_token_gradients(const Trace& trace, const std::vector<int>& queries) {
  if (queries.empty() || !LogitPath::missing(trace).empty()) return {};
  const LogitPath path(trace);
  Eigen::MatrixXd gradients =
      Eigen::MatrixXd::Zero(static_cast<Eigen::Index>(queries.size()), trace.model().hidden_size);
  for (std::size_t i = 0; i < queries.size(); ++i) {
    const auto next = static_cast<std::size_t>(queries[i]) + 1;
    if (next >= trace.tokens().ids.size()) continue;
    gradients.row(static_cast<Eigen::Index>(i)) =
        path.gradient(queries[i], trace.tokens().ids[next]).transpose();
  }
  return gradients;
}

AskedReplay ask(const Trace& trace, const Replay& replay, Asked asked, const AskOptions& options,
                Progress& progress) {
  const int first_step = replay.blocks.empty() ? trace.length() : replay.blocks.front().end;
  AskedReplay result;
  result.queries = asked_queries(trace, asked, first_step);
  result.heads.resize(replay.heads.size());
  result.parts.assign(replay.heads.size(), AskedReplay::kUnknown);
  result.layer_errors.assign(static_cast<std::size_t>(trace.model().num_layers),
                             AskedReplay::kUnknown);
  const std::vector<AskedHeads> layers = layers_of(replay);
  progress.set_total(static_cast<long>(layers.size()));
  if (result.queries.empty()) return result;
  const SequenceTables tables(trace, known_end(trace, replay.acts_until), &progress);
  const Asking what{trace, replay, parse_policy(replay.policy),
                    by_step(result.queries, replay.blocks), tables};
  const Eigen::MatrixXd gradients = next_token_gradients(trace, result.queries);
  std::vector<LayerAnswer> answers(layers.size());
  LayerLoop loop{options.threads, options.background};
  loop.most_at_once = layers_at_once(layer_bytes(trace, StateParts()), kLargeLayer);
  for_layers(layers.size(), loop, [&](std::size_t index, const HeadLoop& for_heads) {
    progress.check();
    answers[index] = ask_layer(what, layers[index], result.queries, gradients, options, for_heads,
                               result, progress);
    progress.advance();
  });
  // In the order of the layers, so that sums do not depend on the number of threads.
  Eigen::MatrixXd output, change;
  std::size_t whole = 0;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const LayerAnswer& answer = answers[i];
    if (answer.output.size() == 0) continue;
    result.layer_errors[static_cast<std::size_t>(layers[i].layer)] =
        quotient(answer.change, answer.output);
    if (whole++ == 0) {
      output = answer.output;
      change = answer.change;
    } else {
      output += answer.output;
      change += answer.change;
    }
  }
  if (whole == 0 || whole < result.layer_errors.size()) return result;
  result.residual_change = quotient(change, output);
  result.worst_layer_error =
      *std::max_element(result.layer_errors.begin(), result.layer_errors.end());
  result.logit_change = 0.0;
  for (std::size_t i = 0; i < result.heads.size(); ++i) {
    result.parts[i] = std::sqrt(result.heads[i].squared_change / output.squaredNorm());
    result.logit_change += result.heads[i].effect;
  }
  return result;
}

void ask(const Trace& trace, const MeasureChoice& choice, const AskOptions& options,
         Progress& progress, Replay& replay) {
  for (const Asked asked : asked_by(choice)) {
    Progress part(progress, 0);
    const AskedReplay answer = ask(trace, replay, asked, options, part);
    for (std::size_t i = 0; i < replay.heads.size(); ++i) {
      HeadReplay& head = replay.heads[i];
      const AskedHead& own = answer.heads[i];
      const auto set = [&](std::string_view name, double value) {
        set_asked(asked, name, value, head);
      };
      set("kept_attention", own.kept_attention);
      set("output_error", own.output_error);
      set("perturbation_l1", own.perturbation_l1);
      set("bound_l1", own.bound_l1);
      set("residual_part", answer.parts[i]);
      set("logit_part", own.effect);
      set("layer_error", answer.layer_errors[static_cast<std::size_t>(head.layer)]);
      set("worst_layer_error", answer.worst_layer_error);
      set("residual_change", answer.residual_change);
      set("logit_change", answer.logit_change);
    }
  }
}

}  // namespace kvloupe
