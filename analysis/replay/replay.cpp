#include "analysis/replay/replay.h"

#include <tbb/info.h>
#include <tbb/parallel_for.h>
#include <tbb/task_arena.h>

#include <algorithm>
#include <mutex>
#include <utility>

#include "analysis/cache/one_blas_thread.h"
#include "analysis/error.h"
#include "analysis/measure/measure_catalog.h"
#include "analysis/policy/policy_catalog.h"
#include "analysis/policy/policy_files.h"
#include "analysis/replay/layer_replay.h"
#include "analysis/replay/layer_states.h"

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
std::vector<int> layers_of(const ReplayRequest& request, const ModelInfo& model) {
  std::vector<int> layers;
  for (const int layer : request.layers) layers.push_back(check_layer(model, layer));
  if (layers.empty()) {
    for (int layer = 0; layer < model.num_layers; ++layer) layers.push_back(layer);
  }
  std::sort(layers.begin(), layers.end());
  layers.erase(std::unique(layers.begin(), layers.end()), layers.end());
  return layers;
}

void check_head(const ReplayRequest& request, const ModelInfo& model) {
  if (request.scores_layer < 0) return;
  check_layer(model, request.scores_layer);
  if (request.scores_head < 0 || request.scores_head >= model.num_kv_heads) {
    throw UsageError("head " + std::to_string(request.scores_head) + ": the trace has heads 0 to " +
                     std::to_string(model.num_kv_heads - 1));
  }
}
}  // namespace

std::string ReplayRequest::key() const {
  std::string result = policy.text() + policy_files(policy) + " budget=" + std::to_string(budget) +
                       " block=" + std::to_string(block) + " metrics=" + (metrics ? "1" : "0");
  if (!measures.empty()) {
    result += " measures=";
    for (const std::string& name : measures) result += name + ",";
  }
  if (scores_layer >= 0) {
    result += " scores=" + std::to_string(scores_layer) + ":" + std::to_string(scores_head);
  }
  if (!layers.empty()) {
    result += " layers=";
    for (const int layer : layers) result += std::to_string(layer) + ",";
  }
  return result;
}

const HeadReplay* Replay::find(int layer, int head) const {
  for (const HeadReplay& candidate : heads) {
    if (candidate.layer == layer && candidate.head == head) return &candidate;
  }
  return nullptr;
}

namespace {
/// Tokens [first, end) that have not left by that step.
std::vector<std::int32_t> alive(const HeadReplay& head, int first, int end, int evicted_after) {
  std::vector<std::int32_t> tokens;
  for (std::int32_t token = first; token < end; ++token) {
    const std::int32_t step = head.evicted_at[static_cast<std::size_t>(token)];
    if (step < 0 || step > evicted_after) tokens.push_back(token);
  }
  return tokens;
}
}  // namespace

std::vector<std::int32_t> Replay::tokens_at(const HeadReplay& head, int step) const {
  return alive(head, first_token(step), blocks.at(static_cast<std::size_t>(step)).end, step - 1);
}

std::vector<std::int32_t> Replay::retained_at(const HeadReplay& head, int step) const {
  return alive(head, first_token(step), blocks.at(static_cast<std::size_t>(step)).end, step);
}

std::vector<std::int32_t> Replay::seen_at(const HeadReplay& head, int step) const {
  std::vector<std::int32_t> tokens = retained_at(head, step);
  const int oldest = first_seen(blocks.at(static_cast<std::size_t>(step)).end - 1, window);
  // It leaves with this step unless an earlier one evicted it.
  if (oldest < first_token(step) && head.evicted_at[static_cast<std::size_t>(oldest)] == step) {
    tokens.insert(tokens.begin(), oldest);
  }
  return tokens;
}

int Replay::first_token(int step) const {
  return first_seen(blocks.at(static_cast<std::size_t>(step)).end, window);
}

bool Replay::left_unseen(const HeadReplay& head, int token) const {
  const std::int32_t left = head.evicted_at.at(static_cast<std::size_t>(token));
  return left >= 0 && token < first_token(left);
}

std::vector<Merge> Replay::merges_at(const HeadReplay& head, int step) const {
  const StepRecord& record = head.steps.at(static_cast<std::size_t>(step));
  std::vector<Merge> merges = record.merges;
  if (record.gifts.empty()) return merges;
  const std::vector<std::int32_t> retained = retained_at(head, step);
  std::vector<Merge> given(retained.size());
  for (const Gift& gift : record.gifts) {
    const auto first = std::upper_bound(retained.begin(), retained.end(), gift.from);
    for (std::int32_t heir = 0; heir < gift.heirs; ++heir) {
      Merge& merge = given[static_cast<std::size_t>(first - retained.begin() + heir)];
      merge.from.push_back(gift.from);
      merge.weights.push_back(gift.weight);
    }
  }
  for (std::size_t i = 0; i < given.size(); ++i) {
    if (given[i].from.empty()) continue;
    given[i].into = retained[i];
    given[i].from.push_back(retained[i]);  // later than all it was given
    given[i].weights.push_back(1.0F);
    merges.push_back(std::move(given[i]));
  }
  return merges;
}

namespace {
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

std::vector<Block> replay_blocks(const Trace& trace, int block) {
  const RunInfo& run = trace.run();
  if (block < 0) throw UsageError("block " + std::to_string(block) + ": must be at least 1");
  if (run.policy != "full") {
    if (block != 0 && block != run.block_size) {
      throw UsageError("block " + std::to_string(block) + ": " + trace.path().string() +
                       " is a closed-loop trace and accepts only its own block size, " +
                       std::to_string(run.block_size));
    }
    return trace.blocks();
  }
  return make_blocks(run.prompt_length, run.generated, block == 0 ? run.block_size : block);
}

Replay replay(const Trace& trace, const ReplayRequest& request, Progress& progress,
              const std::function<void(const std::vector<HeadReplay>&)>& on_layer) {
  ModelInfo model = trace.model();
  model.sliding_window = trace.window();
  std::vector<int> order = layers_of(request, model);
  check_head(request, model);
  for (const std::string& name : request.measures) {
    if (name != "all") require_measure(name);
  }
  if (request.budget < 1) {
    throw UsageError("budget " + std::to_string(request.budget) + ": must be at least 1");
  }
  Replay result;
  result.policy = request.policy.text();
  result.budget = request.budget;
  result.block = request.block == 0 ? trace.run().block_size : request.block;
  result.window = trace.window();
  result.blocks = replay_blocks(trace, request.block);
  result.notes = policy_notes(request.policy, model, request.budget, trace.length());
  progress.set_total(static_cast<long>(order.size() * result.blocks.size()));
  const OneBlasThread one_thread;

  const HeadLoop for_heads = [](int count, const std::function<void(int)>& body) {
    // Isolated: a thread that waits for this layer's heads must not start another layer.
    tbb::this_task_arena::isolate([&] { tbb::parallel_for(0, count, body); });
  };
  std::vector<std::vector<HeadReplay>> layers(order.size());
  std::mutex reporting;
  const auto compute = [&](std::size_t index) {
    progress.check();
    const int layer = order[index];
    const auto states = request.states != nullptr
                            ? request.states->get(trace, layer)
                            : std::make_shared<const LayerStates>(load_layer_states(trace, layer));
    LayerContext context;
    context.layer = layer;
    context.model = model;
    context.attention_scale = trace.run().attention_scale;
    context.budget = request.budget;
    context.output_weights = states->output_weights;
    context.for_heads = for_heads;
    layers[index] =
        replay_layer({*states, result.blocks, request.policy, std::move(context), request.metrics,
                      layer == request.scores_layer ? request.scores_head : -1, request.measures},
                     progress);
    if (on_layer) {
      const std::lock_guard lock(reporting);
      on_layer(layers[index]);
    }
  };

  const int cores = tbb::info::default_concurrency();
  // Threads of the pool serve all replays, whoever started them; which comes first, the arena says.
  tbb::task_arena arena(
      request.threads > 0 ? std::min(request.threads, cores) : cores, 1,
      request.background ? tbb::task_arena::priority::low : tbb::task_arena::priority::normal);
  arena.execute([&] {
    const auto first = std::find(order.begin(), order.end(), request.first_layer);
    const auto first_index = static_cast<std::size_t>(first - order.begin());
    if (first != order.end()) compute(first_index);
    tbb::parallel_for(
        std::size_t{0}, order.size(),
        [&](std::size_t index) {
          if (index != first_index) compute(index);
        },
        tbb::simple_partitioner());
  });
  for (std::vector<HeadReplay>& layer : layers) {
    for (HeadReplay& head : layer) result.heads.push_back(std::move(head));
  }
  // Where an allocation gives heads more or less, the budget is only their mean.
  if (!has_part(request.policy, PartKind::allocation)) note_unused_budget(result);
  return result;
}

}  // namespace kvloupe
