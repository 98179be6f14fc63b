#pragma once
// The loss of a training step: the tokens' losses, weighted by their roles, plus the costs of
// attention that does not rest on token 0 and of heads that do not look back.

#include <ATen/ATen.h>

#include "capture/model/transformer.h"
#include "trainer/recipe.h"

namespace kvloupe::train {

struct Batch {
  at::Tensor ids;    // [b,length] int64
  at::Tensor roles;  // [b,length] int64, as Role
};

/// Costs of attention in one step (see Rest and LookBack).
struct AttentionCosts {
  double rest = 0.0;
  double small_value = 0.0;
  double look_back = 0.0;
  std::int64_t look_back_tokens = 0;
};

struct StepLoss {
  at::Tensor loss;     // scalar, differentiable
  at::Tensor sums;     // [3,3] per role: count, sum of losses, number right; on the device
  at::Tensor resting;  // scalar: mean attention a₀ on token 0, as in Rest; 0 if too short
  at::Tensor value;    // scalar: mean of a₀ |v₀|² / mean |v|², as in Rest; 0 if too short
  at::Tensor
      looking_back;  // scalar: mean attention a on the tokens of LookBack; 0 without that cost
};

/// Runs the model on a batch. The loss is the mean of the tokens' cross-entropies, each multiplied
/// by its role's weight, plus the costs: `rest` times the sum of the mean of 1 − a₀ and
/// `small_value` times the mean of a₀ |v₀|² / mean |v|² (see Rest), and `look_back` times the mean
/// of −log a (see LookBack). Matrix products use bfloat16 with `mixed_precision`.
StepLoss step_loss(const Transformer& model, const Batch& batch, const RoleWeights& weights,
                   const AttentionCosts& costs, bool mixed_precision);

}  // namespace kvloupe::train
