#pragma once

#include <ATen/ATen.h>

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

}  // namespace kvloupe
