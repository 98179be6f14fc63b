#include "capture/run/block_runner.h"

#include <algorithm>
#include <utility>

namespace kvloupe {

BlockRunner::BlockRunner(const Transformer& model, const Options& options) : model_(model) {
  const ModelConfig& config = model.config();
  const at::TensorOptions like = model.options();
  storage_ = options.storage;
  keep_rows_ = options.keep_rows;
  compact_ = options.positions == Positions::compact;
  most_tokens_ = options.most_tokens;
  const int capacity =
      options.capacity > 0 ? std::min(options.capacity, options.most_tokens) : options.most_tokens;
  for (std::int64_t layer = 0; layer < config.num_layers; ++layer) {
    caches_.emplace_back(config.num_kv_heads, config.head_dim, capacity, like);
  }
}

namespace {
/// [1,m] int64.
at::Tensor ids_tensor(std::span<const std::int32_t> ids) {
  at::Tensor tokens = at::empty({1, std::ssize(ids)}, at::kLong);
  std::copy(ids.begin(), ids.end(), tokens.data_ptr<std::int64_t>());
  return tokens;
}

/// ‖h‖₂ of what the layer's attention reads of hidden [1,m,D]: float32 [m].
at::Tensor input_norm(const Transformer& model, int layer, const at::Tensor& hidden) {
  return model.attention_input(layer, hidden[0].to(at::kFloat)).norm(2, /*dim=*/-1);
}
}  // namespace

AttentionOptions BlockRunner::attention_of(int layer) const {
  const AttentionRule rule = model_.attention(layer);
  AttentionOptions options;
  options.scale = rule.scale;
  options.softcap = rule.softcap;
  options.sink_logits = rule.sink_logits;
  options.window = rule.window;
  options.storage = storage_;
  return options;
}

void BlockRunner::turn_back_from(int tokens) {
  const std::int64_t known = turned_back_;
  if (tokens <= known) return;
  constexpr std::int64_t kFirst = 4096;
  const std::int64_t wanted =
      std::min<std::int64_t>(most_tokens_, std::max({std::int64_t{tokens}, 2 * known, kFirst}));
  turned_back_ = std::max<std::int64_t>(wanted, tokens);
  backward_ = model_.turns(-at::arange(turned_back_, model_.options().dtype(at::kLong)));
}

at::Tensor BlockRunner::run(std::span<const std::int32_t> ids,
                            const std::function<void(const LayerStep&)>& on_layer,
                            const Progress& progress, const HiddenHook& on_hidden) {
  const int m = static_cast<int>(ids.size());
  const Block block{length_, length_ + m};
  if (compact_) turn_back_from(block.end);
  const at::Device device = model_.options().device();
  const Rotations rotations =
      model_.rotations(at::arange(block.first, block.end, at::dtype(at::kLong).device(device)));

  at::Tensor hidden = model_.embed(ids_tensor(ids).to(device));
  StateTensors states = model_.states(0, hidden, rotations);
  for (int layer = 0; layer < model_.config().num_layers; ++layer) {
    progress.check();
    LayerCache& cache = caches_[static_cast<std::size_t>(layer)];
    cache.append(states.key[0], states.value[0]);
    AttentionOptions options = attention_of(layer);
    options.keep_rows = keep_rows_;
    if (!backward_.empty()) {
      const Rotation& own = backward_[static_cast<std::size_t>(layer)];
      if (own.cosine.defined()) options.backward = &own;  // else no position is to be turned
    }
    const BlockAttention attention = attend_block(states.query[0], cache, options, progress);
    on_layer({steps_, layer, block, states, attention, cache});
    Transformer::PassedOn made =
        model_.pass_on(layer, hidden, attention.outputs.unsqueeze(0), rotations);
    hidden = std::move(made.hidden);
    states = std::move(made.next);
    if (on_hidden) on_hidden(layer, hidden);
  }
  length_ = block.end;
  ++steps_;
  return hidden;
}

BlockRunner::State BlockRunner::state() const {
  State state{{}, length_, steps_};
  for (const LayerCache& cache : caches_) state.caches.push_back(cache.copy());
  return state;
}

void BlockRunner::go_on_from(const State& state) {
  for (std::size_t layer = 0; layer < caches_.size(); ++layer)
    caches_[layer].take(state.caches[layer]);
  length_ = state.length;
  steps_ = state.steps;
}

void BlockRunner::run_aside(std::span<const std::int32_t> ids, int context,
                            const AsideHook& on_layer, const Progress& progress) const {
  const ModelConfig& config = model_.config();
  const std::int64_t m = std::ssize(ids);
  const at::TensorOptions like = model_.options();
  const Rotations rotations = model_.rotations(
      at::arange(context, context + m, at::dtype(at::kLong).device(like.device())));
  at::Tensor hidden = model_.embed(ids_tensor(ids).to(like.device()));
  for (int layer = 0; layer < config.num_layers; ++layer) {
    progress.check();
    const StateTensors states = model_.states(layer, hidden, rotations);
    const at::Tensor norm = input_norm(model_, layer, hidden);
    on_layer(layer, states, norm);
    LayerCache both(config.num_kv_heads, config.head_dim, context + m, like);
    const LayerCache& own = caches_[static_cast<std::size_t>(layer)];
    std::vector<at::Tensor> keys, values;
    for (std::int64_t head = 0; head < own.heads(); ++head) {
      keys.push_back(own.keys(head).slice(0, 0, context));
      values.push_back(own.values(head).slice(0, 0, context));
    }
    both.append(at::stack(keys), at::stack(values));
    both.append(states.key[0], states.value[0]);
    // As the cache holds its whole sequence, places in it are positions.
    const BlockAttention attention =
        attend_block(states.query[0], both, attention_of(layer), progress);
    hidden = model_.finish_layer(layer, hidden, attention.outputs.unsqueeze(0));
  }
}

void BlockRunner::repeat(const RecordedBlock& recorded,
                         const std::function<void(const LayerStep&)>& on_layer,
                         const Progress& progress) {
  const BlockAttention none;
  for (std::size_t layer = 0; layer < caches_.size(); ++layer) {
    progress.check();
    const StateTensors& states = recorded.states[layer];
    caches_[layer].append(states.key[0], states.value[0]);
    on_layer({steps_, static_cast<int>(layer), recorded.block, states, none, caches_[layer]});
  }
  length_ = recorded.block.end;
  ++steps_;
}

}  // namespace kvloupe
