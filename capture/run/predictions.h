#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "capture/model/transformer.h"

namespace kvloupe {

/// The model's next-token distributions after the m tokens of a block, in short.
struct Predictions {
  int k = 0;
  std::vector<std::int32_t> ids;  // [m,k], most probable first
  std::vector<float> logprobs;    // [m,k]
  std::vector<float> loss;        // [m] −log p(next token), as far as `next` reaches
};

/// From what leaves the last layer, [1,m,D]. `next[i]` is the token that follows the block's token
/// i; it may end early. Softmax in float32; the logits of a few rows at a time. Throws WorkError
/// where a logit is not a number; `first` is the block's first token, for that message.
Predictions predict(const Transformer& model, const at::Tensor& hidden, int first, int k,
                    std::span<const std::int32_t> next);

}  // namespace kvloupe
