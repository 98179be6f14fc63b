#include "capture/run/block_runner.h"

#include <algorithm>

namespace kvloupe {

BlockRunner::BlockRunner(const Transformer& model, const Options& options) : model_(model) {
  const ModelConfig& config = model.config();
  const at::TensorOptions like = model.head_weight().options();
  attention_ = {model.attention_scale(), options.storage, options.keep_rows, nullptr,
                config.sliding_window};
  if (options.positions == Positions::compact) {
    backward_ = model.turn(-at::arange(options.most_tokens, like.dtype(at::kLong)));
  }
  const int capacity =
      options.capacity > 0 ? std::min(options.capacity, options.most_tokens) : options.most_tokens;
  for (std::int64_t layer = 0; layer < config.num_layers; ++layer) {
    caches_.emplace_back(config.num_kv_heads, config.head_dim, capacity, like);
  }
}

at::Tensor BlockRunner::run(std::span<const std::int32_t> ids,
                            const std::function<void(const LayerStep&)>& on_layer,
                            const Progress& progress, const HiddenHook& on_hidden) {
  const int m = static_cast<int>(ids.size());
  const Block block{length_, length_ + m};
  at::Tensor tokens = at::empty({1, m}, at::kLong);
  for (int i = 0; i < m; ++i) tokens.data_ptr<std::int64_t>()[i] = ids[static_cast<std::size_t>(i)];
  const at::Device device = model_.head_weight().device();
  const Rotation rotation =
      model_.rotation(at::arange(block.first, block.end, at::dtype(at::kLong).device(device)));

  at::Tensor hidden = model_.embed(tokens.to(device));
  for (int layer = 0; layer < model_.config().num_layers; ++layer) {
    progress.check();
    const StateTensors states = model_.states(layer, hidden, rotation);
    LayerCache& cache = caches_[static_cast<std::size_t>(layer)];
    cache.append(states.key[0], states.value[0]);
    AttentionOptions options = attention_;
    if (backward_.cosine.defined()) options.backward = &backward_;
    const BlockAttention attention = attend_block(states.query[0], cache, options, progress);
    on_layer({steps_, layer, block, states, attention, cache});
    hidden = model_.finish_layer(layer, hidden, attention.outputs.unsqueeze(0));
    if (on_hidden) on_hidden(layer, hidden);
  }
  length_ = block.end;
  ++steps_;
  return hidden;
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
