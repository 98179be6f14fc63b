#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <span>
#include <vector>

#include "capture/model/transformer.h"

namespace kvloupe {

/// Rows of logits, summarised.
struct TopLogits {
  at::Tensor normaliser;  // [rows,1] float32: log Σ exp(logit)
  at::Tensor values;      // [rows,k] float32: the largest logits, largest first
  at::Tensor indices;     // [rows,k] int64; of equal logits the first come first
};

/// logits [rows,vocab], float32, dense; k <= vocab. On the CPU each row is read twice, while it is
/// in the processor's cache.
TopLogits top_logits(const at::Tensor& logits, int k);

/// The same on any device, by libtorch alone.
TopLogits sorted_logits(const at::Tensor& logits, int k);

/// The model's next-token distributions after the m tokens of a block, summarised.
struct Predictions {
  int k = 0;
  std::vector<std::int32_t> ids;  // [m,k], most probable first
  std::vector<float> logprobs;    // [m,k]
  std::vector<float> loss;        // [m] −log p(next token), as far as `next` reaches
};

/// From the last layer's output, [1,m,D]. `next[i]` is the token that follows the block's token i;
/// it may end early. Softmax in float32, for a few rows of logits at a time. Throws WorkError if a
/// logit is not a number; the message uses `first`, the block's first token.
Predictions predict(const Transformer& model, const at::Tensor& hidden, int first, int k,
                    std::span<const std::int32_t> next);

}  // namespace kvloupe
