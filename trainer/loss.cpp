#include "trainer/loss.h"

#include <torch/types.h>

#include <algorithm>
#include <vector>

#include "tests/capture/whole_model.h"
#include "trainer/autocast.h"

namespace kvloupe::train {
namespace {

constexpr std::int64_t kFirstResting = 8;  // the 9th query: those before it have little choice

struct ForwardResult {
  at::Tensor logits;  // [b,length,vocabulary]
  // Scalars; undefined if the sequences are short.
  at::Tensor looking;  // mean of 1 − a₀ over layers, heads and queries
  at::Tensor value;    // mean of a₀ |v₀|² / mean |v|² over layers and key heads
  // Scalars; undefined without that cost.
  at::Tensor back_loss;     // mean of −log a over layer 0's first heads and their queries
  at::Tensor looking_back;  // mean of a
};

/// a₀ |v₀|² / mean |v|², the mean over sequences and key heads; differentiable in v₀ alone.
/// `first`: attention on token 0, [b,Hq,m].
at::Tensor resting_value(const StateTensors& states, const at::Tensor& first) {
  const at::Tensor squares = states.value.to(at::kFloat).square().sum(-1);  // [b,Hkv,m]
  const at::Tensor by_query_head = first.detach().to(at::kFloat).mean(2);   // [b,Hq]
  const at::Tensor resting = by_query_head.view({squares.size(0), squares.size(1), -1}).mean(2);
  return (resting * squares.select(2, 0) / squares.mean(2).detach()).mean();
}

/// The attention that query heads i < `tokens` give the token i + 1 places back, one head after the
/// other, of a layer's whole attention [b,Hq,m,m].
at::Tensor attention_back(const at::Tensor& attention, std::int64_t tokens) {
  std::vector<at::Tensor> parts;
  for (std::int64_t head = 0; head < std::min(tokens, attention.size(2) - 1); ++head) {
    parts.push_back(attention.select(1, head).diagonal(-1 - head, 1, 2).reshape({-1}));
  }
  return at::cat(parts);
}

/// Whole sequences: the transformer's parts in the order of Transformer::forward.
ForwardResult forward(const Transformer& model, const at::Tensor& ids,
                      std::int64_t look_back_tokens) {
  const Rotations rotations = model.rotations(at::arange(ids.size(1), ids.options()));
  const bool long_enough = ids.size(1) > kFirstResting;
  ForwardResult result;
  at::Tensor hidden = model.embed(ids);
  for (int layer = 0; layer < model.config().num_layers; ++layer) {
    const StateTensors states = model.states(layer, hidden, rotations);
    const at::Tensor attention = causal_attention(states, model.attention_scale());  // [b,Hq,m,m]
    const std::int64_t group = states.query.size(1) / states.key.size(1);
    const at::Tensor values = states.value.repeat_interleave(group, 1);
    hidden =
        model.finish_layer(layer, hidden, at::matmul(attention.to(values.scalar_type()), values));
    if (layer == 0 && look_back_tokens > 0) {
      const at::Tensor back = attention_back(attention, look_back_tokens).to(at::kFloat);
      result.back_loss = -back.clamp_min(1e-9).log().mean();
      result.looking_back = back.detach().mean();
    }
    if (!long_enough) continue;
    const at::Tensor first = attention.select(3, 0).slice(2, kFirstResting);
    const at::Tensor looking = 1.0 - first.to(at::kFloat).mean();
    const at::Tensor value = resting_value(states, first);
    result.looking = layer == 0 ? looking : result.looking + looking;
    result.value = layer == 0 ? value : result.value + value;
  }
  if (long_enough) {
    result.looking = result.looking / model.config().num_layers;
    result.value = result.value / model.config().num_layers;
  }
  result.logits = model.logits(hidden);
  return result;
}

}  // namespace

StepLoss step_loss(const Transformer& model, const Batch& batch, const RoleWeights& weights,
                   const AttentionCosts& costs, bool mixed_precision) {
  ForwardResult result;
  {
    const Autocast autocast(batch.ids.device().type(), mixed_precision);
    const bool looks_back = costs.look_back > 0.0 && batch.ids.size(1) > 1;
    result = forward(model, batch.ids, looks_back ? costs.look_back_tokens : 0);
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
  if (costs.rest > 0.0 && result.looking.defined()) {
    loss = loss + costs.rest * (result.looking + costs.small_value * result.value);
  }
  if (result.back_loss.defined()) loss = loss + costs.look_back * result.back_loss;

  const at::NoGradGuard no_gradients;
  const at::Tensor right = rows.detach().argmax(-1).eq(targets).to(at::kFloat);
  const at::Tensor columns = at::stack({at::ones_like(right), losses.detach(), right}, 1);
  at::Tensor sums = at::zeros({3, 3}, columns.options());
  sums.index_add_(0, roles, columns);
  const at::Tensor resting =
      result.looking.defined() ? 1.0 - result.looking.detach() : at::zeros({}, columns.options());
  const at::Tensor value =
      result.value.defined() ? result.value.detach() : at::zeros({}, columns.options());
  const at::Tensor looking_back =
      result.looking_back.defined() ? result.looking_back : at::zeros({}, columns.options());
  return {loss, sums, resting, value, looking_back};
}

}  // namespace kvloupe::train
