#include "capture/train/loss.h"

#include <torch/types.h>

#include "capture/train/autocast.h"
#include "capture/train/causal_attention_op.h"

namespace kvloupe::train {
namespace {

constexpr std::int64_t kFirstResting = 8;  // the 9th query: those before it have little choice

struct ForwardResult {
  at::Tensor logits;  // [b,length,vocabulary]
  at::Tensor looking;  // scalar: mean of 1 − a₀ over layers, heads and queries; undefined if short
};

/// Whole sequences. The transformer's parts in the order of Transformer::forward, with the faster
/// attention where it applies.
ForwardResult forward(const Transformer& model, const at::Tensor& ids) {
  const Rotation rotation = model.rotation(at::arange(ids.size(1), ids.options()));
  const bool long_enough = ids.size(1) > kFirstResting;
  ForwardResult result;
  at::Tensor hidden = model.embed(ids);
  for (int layer = 0; layer < model.config().num_layers; ++layer) {
    const StateTensors states = model.states(layer, hidden, rotation);
    const AttentionResult attention = fast_attention_applies(states)
                                          ? fast_attention(states, model.attention_scale())
                                          : plain_attention(states, model.attention_scale());
    hidden = model.finish_layer(layer, hidden, attention.output);
    if (!long_enough) continue;
    const at::Tensor looking = 1.0 - attention.first.slice(2, kFirstResting).to(at::kFloat).mean();
    result.looking = layer == 0 ? looking : result.looking + looking;
  }
  if (long_enough) result.looking = result.looking / model.config().num_layers;
  result.logits = model.logits(hidden);
  return result;
}

}  // namespace

StepLoss step_loss(const Transformer& model, const Batch& batch, const RoleWeights& weights,
                   double rest_cost, bool mixed_precision) {
  ForwardResult result;
  {
    const Autocast autocast(batch.ids.device().type(), mixed_precision);
    result = forward(model, batch.ids);
  }
  const at::Tensor& logits = result.logits;
  const std::int64_t last = batch.ids.size(1) - 1;
  const at::Tensor targets = batch.ids.slice(1, 1).reshape({-1});
  const at::Tensor roles = batch.roles.slice(1, 1).reshape({-1});
  const at::Tensor rows = logits.slice(1, 0, last).reshape({-1, logits.size(2)}).to(at::kFloat);
  const at::Tensor losses =
      at::nll_loss_nd(at::log_softmax(rows, -1), targets, {}, at::Reduction::None);
  const at::Tensor by_role =
      at::tensor({weights.text, weights.quoted, weights.answer}, at::kFloat).to(losses.device());
  const at::Tensor weight = by_role.index_select(0, roles);
  at::Tensor loss = (losses * weight).sum() / weight.sum();
  if (rest_cost > 0.0 && result.looking.defined()) loss = loss + rest_cost * result.looking;

  const at::NoGradGuard no_gradients;
  const at::Tensor right = rows.detach().argmax(-1).eq(targets).to(at::kFloat);
  const at::Tensor columns = at::stack({at::ones_like(right), losses.detach(), right}, 1);
  at::Tensor sums = at::zeros({3, 3}, columns.options());
  sums.index_add_(0, roles, columns);
  const at::Tensor resting =
      result.looking.defined() ? 1.0 - result.looking.detach() : at::zeros({}, columns.options());
  return {loss, sums, resting};
}

}  // namespace kvloupe::train
