#include "analysis/replay/replay.h"

#include <algorithm>
#include <mutex>
#include <utility>

#include "analysis/base/core/error.h"
#include "analysis/policy/kit/policy.h"
#include "analysis/policy/kit/policy_catalog.h"
#include "analysis/policy/kit/sequence_tables.h"
#include "analysis/policy/kit/whole_pass.h"
#include "analysis/replay/ask.h"
#include "analysis/replay/compression.h"
#include "analysis/replay/layer_loop.h"
#include "analysis/replay/layer_replay.h"
#include "analysis/replay/measure/measure_catalog.h"
#include "analysis/replay/record/head_states.h"
#include "analysis/replay/record/layer_states.h"
#include "analysis/replay/record/state_rows.h"
#include "analysis/trace/layer_kinds_text.h"
#include "analysis/trace/segments.h"

namespace kvloupe {

namespace {
int check_layer(const ModelInfo& model, int layer) {
  if (layer < 0 || layer >= model.num_layers) {
    throw UsageError("layer " + std::to_string(layer) + ": the trace has layers 0 to " +
                     std::to_string(model.num_layers - 1));
  }
  return layer;
}

/// Layers to compute, ascending, none twice.
std::vector<int> layers_of(const ReplayRequest& request, const Trace& trace) {
  const int count = trace.model().num_layers;
  std::vector<int> layers;
  for (const int layer : request.layers) {
    check_layer(trace.model(), layer);
    if (trace.attends(layer)) layers.push_back(layer);
  }
  if (!request.layers.empty() && layers.empty()) {
    const ModelInfo& own = trace.layer_model(request.layers.front());
    throw UsageError("layer " + std::to_string(request.layers.front()) + " has no cache" +
                     (own.mixer.empty() ? "" : " (" + own.mixer + ")") +
                     ": there is nothing to evict; take a layer with attention, see kvloupe info");
  }
  if (layers.empty()) {
    for (int layer = 0; layer < count; ++layer) {
      if (trace.attends(layer)) layers.push_back(layer);
    }
  }
  std::sort(layers.begin(), layers.end());
  layers.erase(std::unique(layers.begin(), layers.end()), layers.end());
  return layers;
}

void check_head(const ReplayRequest& request, const Trace& trace) {
  if (request.scores_layer < 0) return;
  check_layer(trace.model(), request.scores_layer);
  const ModelInfo& model = trace.layer_model(request.scores_layer);
  if (request.scores_head < 0 || request.scores_head >= model.num_kv_heads) {
    throw UsageError("head " + std::to_string(request.scores_head) + ": the layer has heads 0 to " +
                     std::to_string(model.num_kv_heads - 1));
  }
}
void check_followed(const ReplayRequest& request, int length) {
  for (const int token : request.followed) {
    if (token >= 0 && token < length) continue;
    throw UsageError("token " + std::to_string(token) + ": the trace has tokens 0 to " +
                     std::to_string(length - 1));
  }
}

/// The states that the policy decides by.
StateParts parts_of_policy(const PolicySpec& policy, const LayerContext& context) {
  StateParts parts;
  parts.value_norms = false;
  parts.queries = has_trait(policy, &PolicyTraits::reads_queries);
  parts.output_weights = has_trait(policy, &PolicyTraits::reads_output_weights);
  if (!parts.output_weights) {
    const std::unique_ptr<LayerPolicy> one = make_layer_policy(policy, context);
    parts.values = one->needs_values() || one->merges() || has_part(policy, PartKind::storage);
  }
  return parts;
}

/// The source of the states of a layer's replay.
struct OfLayer {
  std::shared_ptr<const LayerStates> states;
  std::unique_ptr<StateRows> rows;  // null: all are in `states`
};

/// Whether all tokens' states must be there at once.
bool holds_layers(const ReplayRequest& request) {
  return request.metrics || has_trait(request.policy, &PolicyTraits::needs_future);
}

OfLayer states_of_layer(const Trace& trace, const ReplayRequest& request, int layer,
                        const StateParts& parts, Progress& progress) {
  StateParts by_block = parts;
  by_block.output_weights = false;  // these are not of tokens
  if (holds_layers(request) || layer_bytes(trace, by_block) <= kLargeLayer) {
    return {layer_states(request.states, trace, layer, parts, progress), nullptr};
  }
  LayerStates weights;
  for (int q = 0; parts.output_weights && q < trace.layer_model(layer).num_heads; ++q) {
    progress.check();
    auto weight = trace.output_weight(layer, q);
    if (weight) weights.output_weights.push_back(std::move(*weight));
  }
  return {std::make_shared<const LayerStates>(std::move(weights)),
          std::make_unique<StateRows>(trace, layer, by_block)};
}

/// Says where merging left fewer entries than there was room for.
void note_unused_budget(Replay& replay) {
  long merging = 0, fewer = 0;
  for (const HeadReplay& head : replay.heads) {
    for (const StepRecord& step : head.steps) {
      if (step.merges.empty()) continue;
      ++merging;
      if (step.retained < replay.budget) ++fewer;
    }
  }
  if (fewer == 0) return;
  replay.notes.push_back("fewer entries than the budget are left after " + std::to_string(fewer) +
                         " of the " + std::to_string(merging) + " steps of heads that merged");
}

}  // namespace

int replay_block(const Trace& trace, int block) {
  if (block == kWholePrompt) return trace.run().prompt_length;
  return block == 0 ? trace.run().block_size : block;
}

Compression replay_compression(const Trace& trace, std::optional<Compression> wanted) {
  const RunInfo& run = trace.run();
  if (!run.closed_loop()) return wanted.value_or(Compression::regular);
  if (wanted && *wanted != run.compression) {
    throw UsageError(std::string("compression ") + compression_name(*wanted) + ": " +
                     trace.path().string() + " is a closed-loop trace and accepts only its own, " +
                     compression_name(run.compression));
  }
  return run.compression;
}

std::vector<Block> replay_blocks(const Trace& trace, int block,
                                 std::optional<Compression> compression) {
  const RunInfo& run = trace.run();
  if (block < 0) throw UsageError("block " + std::to_string(block) + ": must be at least 1");
  const Compression acting = replay_compression(trace, compression);
  if (run.closed_loop()) {
    if (replay_block(trace, block) != run.block_size) {
      throw UsageError("block " + std::to_string(replay_block(trace, block)) + ": " +
                       trace.path().string() +
                       " is a closed-loop trace and accepts only its own block size, " +
                       std::to_string(run.block_size));
    }
    return trace.blocks();
  }
  const int end = compression_end(trace.tokens(), run, acting);
  return make_blocks(run.prompt_length, run.generated, replay_block(trace, block),
                     end < run.prompt_length ? end : 0);
}

RunShape run_shape(const Trace& trace, int budget, std::optional<Compression> compression) {
  const RunInfo& run = trace.run();
  const int end = compression_end(trace.tokens(), run, replay_compression(trace, compression));
  return {run.prompt_length, std::max(std::min(end, run.tokens()) - run.prompt_length, 0), budget};
}

Replay replay(const Trace& trace, const ReplayRequest& request, Progress& progress,
              const std::function<void(const std::vector<HeadReplay>&)>& on_layer) {
  const ModelInfo model = noted_model(trace);
  std::vector<int> order = layers_of(request, trace);
  check_head(request, trace);
  for (const std::string& name : request.measures) {
    if (name != "all") require_measure(name);
  }
  if (request.budget < 1) {
    throw UsageError("budget " + std::to_string(request.budget) + ": must be at least 1");
  }
  check_limits(request.policy, model, request.budget, trace.length());
  check_probe(request.policy, trace);
  check_residual(request.policy, trace);
  check_run(request.policy, run_shape(trace, request.budget, request.compression));
  check_followed(request, trace.length());
  Replay result;
  result.policy = request.policy.text();
  result.budget = request.budget;
  result.block = replay_block(trace, request.block);
  result.blocks = replay_blocks(trace, request.block, request.compression);
  result.compression = replay_compression(trace, request.compression);
  result.acts_until = compression_end(trace.tokens(), trace.run(), result.compression);
  result.notes = replay_notes(trace, request.policy, request.budget);
  progress.set_total(static_cast<long>(order.size() * result.blocks.size()));
  progress.count("layers", std::ssize(order), std::ssize(result.blocks));
  const std::vector<std::string> names =
      request.cheap ? request.measures : with_made_of(request.measures);
  const MeasureChoice measures{request.cheap, names, request.summary};
  LayerContext common{
      .model = model, .budget = request.budget, .prompt_length = trace.run().prompt_length};
  const std::vector<char> structural = structural_tokens(trace.tokens());
  if (!structural.empty()) common.structural = &structural;
  const SequenceTables tables(trace, known_end(trace, result.acts_until), &progress,
                              request.prefix);
  common.sequence = &tables;
  common.progress = &progress;
  const StateParts parts = request.metrics ? StateParts().with(parts_read(measures, request.policy))
                                           : parts_of_policy(request.policy, common);
  const RoleTokens tokens = role_tokens(trace.tokens(), trace.run());
  std::vector<std::vector<HeadReplay>> layers(order.size());
  std::mutex reporting;
  const auto compute = [&](std::size_t index, const HeadLoop& for_heads) {
    progress.check();
    const int layer = order[index];
    const OfLayer source = states_of_layer(trace, request, layer, parts, progress);
    const std::shared_ptr<const LayerStates>& states = source.states;
    LayerContext context = common;
    context.layer = layer;
    context.model = trace.layer_model(layer);
    context.attention = trace.attention(layer);
    context.output_weights = states->output_weights;
    context.for_heads = for_heads;
    const DecidingLayer deciding(trace, layer, request.states, context, progress);
    layers[index] =
        replay_layer({.states = *states,
                      .blocks = result.blocks,
                      .policy = request.policy,
                      .context = std::move(context),
                      .metrics = request.metrics,
                      .scores_head = request.scores_layer == kEveryHead ? kEveryHead
                                     : layer == request.scores_layer    ? request.scores_head
                                                                        : -1,
                      .measures = measures,
                      .followed = request.followed,
                      .tokens = &tokens,
                      .acts_until = result.acts_until,
                      .rows = source.rows.get(),
                      .shared = request.shared,
                      .decider = deciding.get()},
                     progress);
    if (on_layer) {
      const std::lock_guard lock(reporting);
      on_layer(layers[index]);
    }
  };
  const auto first = std::find(order.begin(), order.end(), request.first_layer);
  LayerLoop loop{request.threads, request.background,
                 first == order.end() ? -1 : static_cast<int>(first - order.begin())};
  if (holds_layers(request)) {
    loop.most_at_once = layers_at_once(layer_bytes(trace, parts), kLargeLayer);
  }
  for_layers(order.size(), loop, compute);
  for (std::vector<HeadReplay>& layer : layers) {
    for (HeadReplay& head : layer) result.heads.push_back(std::move(head));
  }
  if (request.metrics) {
    Progress asking(progress, 0);
    ask(trace, measures, {request.threads, request.background, request.states}, asking, result);
  }
  // Under an allocation the budget is only the mean over the heads.
  if (!has_part(request.policy, PartKind::allocation)) note_unused_budget(result);
  if (has_trait(request.policy, &PolicyTraits::budget_is_outcome)) {
    result.notes.push_back("the policy keeps " + reached_share(result) + " at the last step");
  }
  return result;
}

ModelInfo noted_model(const Trace& trace) {
  ModelInfo model = trace.model();
  const Reach reach = trace.same_reach() ? trace.reach(trace.storing_layers().front()) : Reach();
  model.sliding_window = reach.window;
  model.chunk_size = reach.chunk;
  model.chunked_tokens = reach.tokens;
  return model;
}

std::vector<std::string> replay_notes(const Trace& trace, const PolicySpec& policy, int budget) {
  std::vector<std::string> notes = policy_notes(policy, noted_model(trace), budget, trace.length());
  if (!trace.same_reach()) {
    notes.push_back(window_text(trace) + std::string(kLeavesTheWindow));
  }
  for (std::string& note : layer_kinds_notes(trace)) notes.push_back(std::move(note));
  return notes;
}

}  // namespace kvloupe
