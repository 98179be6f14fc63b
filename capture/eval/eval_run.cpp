#include "capture/eval/eval_run.h"

#include <algorithm>

namespace kvloupe {

namespace {
BlockRunner::Options runner_options(const EvalRun::Options& options) {
  BlockRunner::Options result;
  result.most_tokens = options.most_tokens;
  if (options.loop) {
    const int block = std::min(options.block, options.most_tokens);
    result.capacity = std::min(options.loop->budget, options.most_tokens - block) + block;
    result.positions = options.loop->positions;
  }
  return result;
}
}  // namespace

EvalRun::EvalRun(const Transformer& model, const ModelInfo& info, const Options& options)
    : model_(model), block_(options.block), runner_(model, runner_options(options)) {
  if (!options.loop) return;
  check_window(info, options.most_tokens);
  policy_.emplace(model, info, *options.loop, Storage::float32);
}

void EvalRun::read(std::span<const std::int32_t> ids, bool cut, const Progress& progress,
                   const HiddenHook& on_hidden) {
  for (const Block& block : make_blocks(static_cast<int>(ids.size()), 0, block_)) {
    const int first = runner_.length();
    const at::Tensor hidden = runner_.run(
        ids.subspan(static_cast<std::size_t>(block.first), static_cast<std::size_t>(block.size())),
        [&](const LayerStep& step) {
          if (cut && policy_) policy_->cut(step);
        },
        progress,
        [&](int layer, const at::Tensor& left) {
          if (on_hidden) on_hidden(layer, first, left);
        });
    last_ = hidden.slice(1, hidden.size(1) - 1);
  }
}

std::int32_t EvalRun::choice() const {
  return static_cast<std::int32_t>(model_.logits(last_)[0][0].argmax().item<std::int64_t>());
}

}  // namespace kvloupe
