#pragma once

#include <ATen/ATen.h>

#include "capture/model/transformer.h"

namespace kvloupe::train {

/// Causal attention of whole sequences, as training needs it.
struct AttentionResult {
  at::Tensor output;  // [b,Hq,m,d] softmax(scale · QKᵀ) V
  at::Tensor first;   // [b,Hq,m] the attention a₀ that each query gives token 0
};

/// Whether fast_attention can take these states: on the CPU, with a head dimension of 16, 32, 48 …
bool fast_attention_applies(const StateTensors& states);

/// Causal attention in float32, differentiable in both results. The same as plain_attention(), but
/// no row of attention ever leaves the processor's cache: it is computed for a tile of queries at a
/// time, and again in the backward pass from the rows' log-sum-exp (as in FlashAttention; Dao and
/// others 2022).
AttentionResult fast_attention(const StateTensors& states, double scale);

/// The same from whole attention matrices, on any device and for any head dimension.
AttentionResult plain_attention(const StateTensors& states, double scale);

}  // namespace kvloupe::train
