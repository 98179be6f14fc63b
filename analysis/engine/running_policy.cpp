// A policy in the cache of a running model: the object that kvloupe-capture drives, for other
// programs.

#include <cstdint>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "analysis/base/core/error.h"
#include "analysis/base/core/parallel_loop.h"
#include "analysis/base/system/blas.h"
#include "analysis/engine/calls.h"
#include "analysis/engine/given_states.h"
#include "analysis/policy/kit/allowed_python.h"
#include "analysis/policy/kit/policy_catalog.h"
#include "analysis/replay/cache/evicting_layer.h"

namespace kvloupe::engine {

namespace {
/// Far more than any model has; products of three of them still fit into 64 bits.
constexpr int kMostHeads = 1 << 16;
constexpr int kMostChannels = 1 << 20;
constexpr std::size_t kLongestScaling = std::size_t{1} << 16U;

void require_range(std::int64_t value, std::int64_t least, std::int64_t most, const char* what) {
  if (value >= least && value <= most) return;
  throw UsageError(std::string("layer: ") + what + " is " + std::to_string(value) + "; give " +
                   std::to_string(least) + " to " + std::to_string(most));
}

void check_layer(const kvloupe_engine_layer& layer) {
  require_range(layer.layers, 1, kMostHeads, "layers");
  require_range(layer.layer, 0, layer.layers - 1, "layer");
  require_range(layer.heads, 1, kMostHeads, "heads");
  require_range(layer.query_heads, layer.heads, kMostHeads, "query_heads");
  require_range(layer.key_dim, 1, kMostChannels, "key_dim");
  require_range(layer.value_dim, 1, kMostChannels, "value_dim");
  require_range(layer.sliding_window, 0, std::numeric_limits<int>::max(), "sliding_window");
  require_range(layer.chunk_size, 0, std::numeric_limits<int>::max(), "chunk_size");
  if (layer.chunk_size > 0 && layer.sliding_window > 0) {
    throw UsageError("layer: has a sliding window and chunks; give one of them");
  }
  require_range(layer.budget, 1, std::numeric_limits<int>::max(), "budget");
  require_range(layer.prompt_length, 0, std::numeric_limits<int>::max(), "prompt_length");
  require_range(layer.compact, 0, 1, "compact");
  require_range(layer.interleaved, 0, 1, "interleaved");
  require_range(layer.values_in_keys, 0, 1, "values_in_keys");
  if (layer.values_in_keys != 0) require_range(layer.value_dim, 1, layer.key_dim, "value_dim");
  require_range(layer.rotary_start, 0, layer.key_dim - 1, "rotary_start");
  require_range(layer.rotary_dim, 0, layer.key_dim - layer.rotary_start, "rotary_dim");
  if (layer.query_heads % layer.heads != 0) {
    throw UsageError("layer: " + std::to_string(layer.query_heads) + " query heads for " +
                     std::to_string(layer.heads) + " heads; give a multiple");
  }
  const auto positive = [](double value) { return value > 0.0 && value <= 1e30; };
  if (!positive(layer.attention_scale)) {
    throw UsageError("layer: attention_scale must be a positive number, usually 1/sqrt(key_dim)");
  }
  if (layer.softcap != 0.0 && !positive(layer.softcap)) {
    throw UsageError("layer: softcap must be a positive number, or 0 for none");
  }
  if (layer.rope_theta != 0.0 && !positive(layer.rope_theta)) {
    throw UsageError("layer: rope_theta must be a positive number, or 0 where nothing rotates");
  }
}

/// "null", or the JSON object that was given.
std::string scaling_text(const kvloupe_engine_layer& layer) {
  if (layer.rope_theta == 0.0) return kNoRotation;
  if (layer.rope_scaling == nullptr) return "null";
  const std::string text = layer.rope_scaling;
  if (text.size() > kLongestScaling || !nlohmann::json::accept(text)) {
    throw UsageError("layer: rope_scaling is no JSON; give what config.json has, or NULL");
  }
  return text;
}

LayerContext context_of(const kvloupe_engine_layer& layer) {
  LayerContext context;
  context.layer = layer.layer;
  ModelInfo& model = context.model;
  model.num_layers = layer.layers;
  model.num_heads = layer.query_heads;
  model.num_kv_heads = layer.heads;
  model.head_dim = layer.key_dim;
  model.value_dim = layer.value_dim;
  model.value_is_key_prefix = layer.values_in_keys != 0;
  model.sliding_window = layer.sliding_window;
  model.chunk_size = layer.chunk_size;
  model.rope_theta = layer.rope_theta;
  model.rope_scaling = scaling_text(layer);
  model.rope_pairing = layer.interleaved != 0 ? RopePairing::interleaved : RopePairing::half;
  model.rotary_start = layer.rotary_start;
  model.rotary_dim = layer.rotary_dim;
  context.attention.scale = layer.attention_scale;
  context.attention.softcap = layer.softcap;
  if (layer.sink_logits != nullptr) {
    context.attention.sink_logits.assign(layer.sink_logits, layer.sink_logits + layer.query_heads);
  }
  context.budget = layer.budget;
  context.prompt_length = layer.prompt_length;
  context.for_heads = [](int count, const std::function<void(int)>& body) {
    parallel_loop(0, count, body, tbb::simple_partitioner());
  };
  return context;
}

PolicySpec parsed(const char* spec) {
  require(spec, "policy");
  // The caller is the program: whom it names, it trusts.
  for (const std::string& file : python_files_in(spec)) allow_python(file);
  PolicySpec policy = parse_policy(spec);
  check_combination(policy);
  check_closed_loop(policy, false, false, false);
  return policy;
}

uint32_t traits_of(const PolicySpec& policy) {
  uint32_t bits = 0;
  if (has_trait(policy, &PolicyTraits::reads_queries)) bits |= KVLOUPE_ENGINE_READS_QUERIES;
  if (has_trait(policy, &PolicyTraits::reads_output_weights)) {
    bits |= KVLOUPE_ENGINE_READS_OUTPUT_WEIGHTS;
  }
  if (has_part(policy, PartKind::storage)) {
    bits |= KVLOUPE_ENGINE_ROUNDS | KVLOUPE_ENGINE_READS_VALUES;
  }
  return bits;
}
}  // namespace

/// One head's part of the answer, whose arrays `view` points into.
struct RetainedHead {
  std::vector<std::int32_t> kept, tokens;
  std::vector<float> log_sizes, scores;
  std::vector<std::vector<float>> keys, values;  // [merges]
  std::vector<Merge> merges;
  std::vector<kvloupe_engine_merge> merge_views;
};

}  // namespace kvloupe::engine

/// The caches of a layer under its policy.
struct kvloupe_engine_policy {
  kvloupe_engine_policy(const char* spec, const kvloupe_engine_layer& layer);
  void step(const kvloupe_engine_block& block);
  void answer(int head, kvloupe::HeadDecision& decision);

  kvloupe::PolicySpec policy;
  std::string text;
  kvloupe::LayerContext context;
  std::vector<kvloupe::OutputWeight> output_weights;
  bool compact;
  uint32_t reads = 0;
  std::unique_ptr<kvloupe::EvictingLayer> caches;
  int steps = 0;
  int end = 0;           // tokens so far
  bool stopped = false;  // a step at which the policy did not act has been
  bool ended = false;    // the last step has been
  bool broken = false;   // a step failed half-way
  kvloupe::engine::GivenStates queries, keys, values;
  std::vector<kvloupe::Matrix> no_queries;
  std::vector<kvloupe::engine::RetainedHead> heads;
  std::vector<kvloupe_engine_retained> retained;
};

kvloupe_engine_policy::kvloupe_engine_policy(const char* spec, const kvloupe_engine_layer& layer)
    : compact(layer.compact != 0) {
  using namespace kvloupe;
  using namespace kvloupe::engine;
  check_layer(layer);
  policy = parsed(spec);
  text = policy.text();
  context = context_of(layer);
  check_limits(policy, context.model, context.budget);
  reads = traits_of(policy);
  if ((reads & KVLOUPE_ENGINE_READS_OUTPUT_WEIGHTS) != 0) {
    const std::int64_t hidden = layer.output_weights.columns;
    if (layer.output_weights.data == nullptr) {
      throw UsageError("policy: " + text + " reads the output projection; give output_weights");
    }
    require_range(hidden, 1, kMostChannels, "the hidden size of output_weights");
    GivenStates given;
    for (const MatrixView& weight :
         given.read(layer.output_weights, {layer.query_heads, layer.value_dim, hidden},
                    "output_weights", 0)) {
      output_weights.emplace_back(Matrix(weight));
    }
    context.model.hidden_size = static_cast<int>(hidden);
    context.output_weights = output_weights;
  }
  const std::unique_ptr<LayerPolicy> one = make_layer_policy(policy, context);
  if (one->needs_values() || one->merges()) reads |= KVLOUPE_ENGINE_READS_VALUES;
  if (one->merges()) reads |= KVLOUPE_ENGINE_MERGES;
  caches = std::make_unique<EvictingLayer>(policy, context, PolicyOptions{},
                                           compact ? Positions::compact : Positions::original);
  heads.resize(static_cast<std::size_t>(layer.heads));
  retained.resize(heads.size());
}

void kvloupe_engine_policy::step(const kvloupe_engine_block& block) {
  using namespace kvloupe;
  const ModelInfo& model = context.model;
  const bool acts = block.acts != 0;
  if (broken) throw UsageError("step: an earlier step failed; make a new policy");
  if (ended) throw UsageError("step: the last step has been; make a new policy");
  if (block.first_new != end || block.end_new <= block.first_new) {
    throw UsageError("step: tokens " + std::to_string(block.first_new) + " to " +
                     std::to_string(block.end_new) + " do not follow; the next token is " +
                     std::to_string(end) + ", and a block has at least one");
  }
  if (acts && stopped) {
    throw UsageError(
        "step: the policy did not act at an earlier step and does not know its queries; "
        "it cannot act again");
  }
  if (const Reach reach = model.reach(); compact && !reach.all() && block.end_new > reach.span()) {
    throw UsageError(std::string("step: compact positions are not defined beyond the ") +
                     (reach.chunk > 0 ? "chunk" : "sliding window") + " of " +
                     std::to_string(reach.span()) + " tokens; use original positions");
  }
  const std::int64_t m = block.end_new - block.first_new;
  BlockStates states;
  states.step = steps;
  states.block = {block.first_new, block.end_new};
  states.last = block.last != 0;
  states.acts = acts;
  states.keys = keys.read(block.keys, {model.num_kv_heads, m, model.head_dim}, "keys", end);
  if ((reads & KVLOUPE_ENGINE_READS_VALUES) != 0) {
    states.values =
        values.read(block.values, {model.num_kv_heads, m, model.value_width()}, "values", end);
  }
  if (acts && (reads & KVLOUPE_ENGINE_READS_QUERIES) != 0) {
    states.queries =
        queries.read(block.queries, {model.num_heads, m, model.head_dim}, "queries", end);
  } else if (acts && compact) {  // they are rotated whoever reads them
    no_queries.assign(static_cast<std::size_t>(model.num_heads), Matrix::Zero(m, model.head_dim));
    for (const Matrix& none : no_queries) states.queries.push_back(view(none));
  }
  broken = true;  // until the end is reached
  const OneBlasThread one_thread;
  std::vector<HeadDecision> decisions = caches->step(states);
  for (std::size_t head = 0; head < decisions.size(); ++head) {
    answer(static_cast<int>(head), decisions[head]);
  }
  broken = false;
  stopped = stopped || !acts;
  ended = states.last;
  end = block.end_new;
  ++steps;
}

void kvloupe_engine_policy::answer(int head, kvloupe::HeadDecision& decision) {
  using namespace kvloupe;
  const HeadCache& cache = caches->head(head);
  engine::RetainedHead& own = heads[static_cast<std::size_t>(head)];
  kvloupe_engine_retained& shown = retained[static_cast<std::size_t>(head)];
  own = {};
  const int hidden = cache.hidden();
  shown = {};
  shown.left_window = hidden;
  shown.entries = static_cast<int32_t>(cache.tokens().size()) + hidden;
  shown.threshold = decision.threshold;
  own.kept = decision.kept;
  for (std::int32_t& row : own.kept) row += hidden;
  own.scores = std::move(decision.scores);
  const RoundedRows rounded = caches->carry_out(head, decision);

  const CacheView view = cache.view();
  const auto rows_from = [](const MatrixView& rows, const Block& some) -> kvloupe_engine_rounded {
    if (some.size() == 0) return {};
    return {some.first, some.size(), rows.data() + some.first * rows.outerStride()};
  };
  shown.keys = rows_from(view.keys, rounded.keys);
  shown.values = rows_from(view.values, rounded.values);
  own.tokens.assign(view.tokens.begin(), view.tokens.end());
  own.log_sizes.assign(view.log_sizes.begin(), view.log_sizes.end());
  own.merges = std::move(decision.merges);
  const auto row_of = [](const MatrixView& rows, Eigen::Index row) {
    const float* begin = rows.data() + row * rows.outerStride();
    return std::vector<float>(begin, begin + rows.cols());
  };
  for (Merge& merge : own.merges) {
    const auto kept = std::lower_bound(decision.kept.begin(), decision.kept.end(), merge.into);
    const auto row = static_cast<Eigen::Index>(kept - decision.kept.begin());
    own.values.push_back(row_of(view.values, row));
    own.keys.push_back(merge.key.empty() ? std::vector<float>() : row_of(view.keys, row));
    for (int& from : merge.from) from += hidden;
  }
  for (std::size_t i = 0; i < own.merges.size(); ++i) {
    const Merge& merge = own.merges[i];
    const bool changed = !own.keys[i].empty();
    own.merge_views.push_back({.into = merge.into + hidden,
                               .members = static_cast<int32_t>(merge.from.size()),
                               .from = merge.from.data(),
                               .key_changed = changed ? 1 : 0,
                               .log_size = merge.log_size.value_or(0.0F),
                               .weights = merge.weights.data(),
                               .key = changed ? own.keys[i].data() : nullptr,
                               .value = own.values[i].data()});
  }
  shown.kept_count = static_cast<int32_t>(own.kept.size());
  shown.kept = own.kept.data();
  shown.tokens = own.tokens.data();
  shown.merge_count = static_cast<int32_t>(own.merge_views.size());
  shown.merges = own.merge_views.data();
  shown.log_sizes = own.log_sizes.empty() ? nullptr : own.log_sizes.data();
  shown.scores = own.scores.empty() ? nullptr : own.scores.data();
}

using kvloupe::engine::guarded;
using kvloupe::engine::require;
using kvloupe::engine::require_size;

int32_t kvloupe_engine_spec_reads(const char* spec, uint32_t* reads, char* error) {
  return guarded(error, [&] {
    require(reads, "reads");
    *reads = kvloupe::engine::traits_of(kvloupe::engine::parsed(spec));
  });
}

int32_t kvloupe_engine_check_reads_only(const char* spec, char* error) {
  return guarded(error, [&] {
    kvloupe::check_run(kvloupe::engine::parsed(spec), kvloupe::without_generated());
  });
}

int32_t kvloupe_engine_budget(const char* text, int32_t prompt_length, int32_t* entries,
                              char* error) {
  return guarded(error, [&] {
    require(text, "budget");
    require(entries, "entries");
    if (prompt_length < 1) throw kvloupe::UsageError("prompt_length: must be at least 1");
    *entries = kvloupe::parse_budget(text).resolve(prompt_length);
  });
}

int32_t kvloupe_engine_policy_create(const char* spec, const kvloupe_engine_layer* layer,
                                     kvloupe_engine_policy** policy, char* error) {
  return kvloupe::engine::created(policy, "policy", error, [&] {
    require(layer, "layer");
    require_size(layer->size, sizeof(kvloupe_engine_layer), "kvloupe_engine_layer");
    return std::make_unique<kvloupe_engine_policy>(spec, *layer);
  });
}

void kvloupe_engine_policy_destroy(kvloupe_engine_policy* policy) { delete policy; }

uint32_t kvloupe_engine_policy_reads(const kvloupe_engine_policy* policy) { return policy->reads; }

const char* kvloupe_engine_policy_spec(const kvloupe_engine_policy* policy) {
  return policy->text.c_str();
}

int32_t kvloupe_engine_policy_step(kvloupe_engine_policy* policy, const kvloupe_engine_block* block,
                                   const kvloupe_engine_retained** retained, char* error) {
  return guarded(error, [&] {
    require(policy, "policy");
    require(block, "block");
    require(retained, "retained");
    *retained = nullptr;
    require_size(block->size, sizeof(kvloupe_engine_block), "kvloupe_engine_block");
    policy->step(*block);
    *retained = policy->retained.data();
  });
}
