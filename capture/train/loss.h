#pragma once
// The loss of a training step: the tokens' losses, weighted by their roles, plus the cost of
// attention that does not rest on token 0.

#include <ATen/ATen.h>

#include "capture/model/transformer.h"
#include "capture/train/recipe.h"

namespace kvloupe::train {

struct Batch {
  at::Tensor ids;    // [b,length] int64
  at::Tensor roles;  // [b,length] int64, as Role
};

struct StepLoss {
  at::Tensor loss;     // scalar, differentiable
  at::Tensor sums;     // [3,3] per role: count, sum of losses, number right; on the device
  at::Tensor resting;  // scalar: mean attention a₀ on token 0, as in Rest; 0 if too short
  at::Tensor value;    // scalar: mean of a₀ |v₀|² / mean |v|², as in Rest; 0 if too short
};

/// Runs the model on a batch. The loss is the mean of the tokens' cross-entropies, each multiplied
/// by its role's weight, plus `rest_cost` times the sum of the mean of 1 − a₀ over layers, query
/// heads and the queries from the 9th on and `small_value` times the mean of a₀ |v₀|² / mean |v|²
/// (see Rest). Matrix products use bfloat16 with `mixed_precision`.
StepLoss step_loss(const Transformer& model, const Batch& batch, const RoleWeights& weights,
                   double rest_cost, double small_value, bool mixed_precision);

}  // namespace kvloupe::train
