#include "capture/run/block_runner.h"

namespace kvloupe {

BlockRunner::BlockRunner(const Transformer& model, int capacity, Storage storage, bool keep_rows)
    : model_(model), storage_(storage), keep_rows_(keep_rows) {
  const ModelConfig& config = model.config();
  const at::TensorOptions like = model.head_weight().options();
  for (std::int64_t layer = 0; layer < config.num_layers; ++layer) {
    caches_.emplace_back(config.num_kv_heads, config.head_dim, capacity, like);
  }
}

at::Tensor BlockRunner::run(std::span<const std::int32_t> ids,
                            const std::function<void(const LayerStep&)>& on_layer,
                            const Progress& progress) {
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
    const LayerStates states = model_.states(layer, hidden, rotation);
    LayerCache& cache = caches_[static_cast<std::size_t>(layer)];
    cache.append(states.key[0], states.value[0]);
    const BlockAttention attention = attend_block(states.query[0], cache, model_.attention_scale(),
                                                  storage_, keep_rows_, progress);
    on_layer({layer, block, states, attention});
    hidden = model_.finish_layer(layer, hidden, attention.outputs.unsqueeze(0));
  }
  length_ = block.end;
  return hidden;
}

}  // namespace kvloupe
