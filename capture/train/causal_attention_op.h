#pragma once

#include <ATen/ATen.h>

#include "capture/model/transformer.h"

namespace kvloupe::train {

/// Whether fast_attention can take these states: on the CPU, with a head dimension of 16, 32, 48 …
bool fast_attention_applies(const StateTensors& states);

/// Causal attention outputs softmax(scale · QKᵀ) V of whole sequences, [b,Hq,m,d] float32,
/// differentiable. The same as causal_attention() times the values, but no row of attention ever
/// leaves the processor's cache: it is computed a tile of queries at a time in float32, and again
/// in the backward pass from the rows' log-sum-exp (as FlashAttention does; Dao and others 2022).
at::Tensor fast_attention(const StateTensors& states, double scale);

}  // namespace kvloupe::train
