// The trainer's attention against the transformer's own, values and gradients.

#include <gtest/gtest.h>
#include <torch/types.h>

#include <cmath>

#include "capture/train/causal_attention_op.h"

namespace kvloupe::train {
namespace {

struct Result {
  at::Tensor output, first, query, key, value;
};

/// The part of the results that a loss is made from.
enum class Loss { outputs, first, both };

StateTensors random_states(std::int64_t length, std::int64_t dim) {
  at::manual_seed(5);
  StateTensors states{at::randn({2, 4, length, dim}, at::kDouble) * 2.0,
                      at::randn({2, 2, length, dim}, at::kDouble) * 2.0,
                      at::randn({2, 2, length, dim}, at::kDouble)};
  return states;
}

at::Tensor weighted_sum(const at::Tensor& tensor) {
  const at::Tensor weights = at::linspace(-1.0, 1.0, tensor.numel(), tensor.options());
  return (tensor * weights.view(tensor.sizes())).sum();
}

template <typename Attend>
Result run(const StateTensors& source, at::ScalarType type, Loss loss, const Attend& attend) {
  const auto leaf = [&](const at::Tensor& tensor) {
    return tensor.to(type).detach().clone().requires_grad_(true);
  };
  const StateTensors states{leaf(source.query), leaf(source.key), leaf(source.value)};
  const AttentionResult result = attend(states);
  at::Tensor total = at::zeros({}, result.output.options());
  if (loss != Loss::first) total = total + weighted_sum(result.output);
  if (loss != Loss::outputs) total = total + 3.0 * weighted_sum(result.first);
  total.backward();
  const auto gradient = [](const at::Tensor& leaf) {
    return leaf.grad().defined() ? leaf.grad().to(at::kDouble)
                                 : at::zeros_like(leaf.detach()).to(at::kDouble);
  };
  return {result.output.detach().to(at::kDouble), result.first.detach().to(at::kDouble),
          gradient(states.query), gradient(states.key), gradient(states.value)};
}

/// Reads like the formula, in double precision.
AttentionResult naive(const StateTensors& states, double scale) {
  const std::int64_t length = states.query.size(2);
  const at::Tensor key = states.key.repeat_interleave(2, 1);
  const at::Tensor value = states.value.repeat_interleave(2, 1);
  const at::Tensor later = at::ones({length, length}, at::kBool).triu(1);
  const at::Tensor logits =
      (at::matmul(states.query, key.transpose(-1, -2)) * scale).masked_fill(later, -INFINITY);
  const at::Tensor attention = at::softmax(logits, -1);
  return {at::matmul(attention, value), attention.select(3, 0)};
}

double error(const at::Tensor& value, const at::Tensor& reference) {
  return ((value - reference).norm() / reference.norm()).item<double>();
}

TEST(FastAttention, EqualsTheFormulaAndItsGradients) {
  for (const std::int64_t length : {1, 7, 64, 65, 150}) {
    for (const std::int64_t dim : {16, 32, 48}) {
      for (const Loss loss : {Loss::outputs, Loss::first, Loss::both}) {
        const StateTensors states = random_states(length, dim);
        const double scale = 1.0 / std::sqrt(static_cast<double>(dim));
        const Result fast =
            run(states, at::kFloat, loss, [&](const auto& s) { return fast_attention(s, scale); });
        const Result exact =
            run(states, at::kDouble, loss, [&](const auto& s) { return naive(s, scale); });
        const std::string where = std::to_string(length) + " " + std::to_string(dim) + " loss " +
                                  std::to_string(static_cast<int>(loss));
        EXPECT_LT(error(fast.output, exact.output), 2e-6) << where;
        EXPECT_LT(error(fast.first, exact.first), 2e-6) << where;
        if (loss == Loss::first) {
          EXPECT_EQ(fast.value.abs().max().item<double>(), 0.0) << where;  // a₀ knows no values
        } else {
          EXPECT_LT(error(fast.value, exact.value), 2e-6) << where;
        }
        if (length == 1) continue;  // one key takes all: queries and keys have no gradient
        EXPECT_LT(error(fast.query, exact.query), 2e-5) << where;
        EXPECT_LT(error(fast.key, exact.key), 2e-5) << where;
      }
    }
  }
}

TEST(FastAttention, TakesStatesInSixteenBits) {
  const StateTensors states = random_states(40, 32);
  const Result fast =
      run(states, at::kBFloat16, Loss::both, [&](const auto& s) { return fast_attention(s, 0.2); });
  const StateTensors rounded{states.query.to(at::kBFloat16), states.key.to(at::kBFloat16),
                             states.value.to(at::kBFloat16)};
  const Result exact =
      run(rounded, at::kDouble, Loss::both, [&](const auto& s) { return naive(s, 0.2); });
  EXPECT_LT(error(fast.output, exact.output), 2e-6);
  EXPECT_LT(error(fast.query, exact.query), 5e-3);
}

TEST(PlainAttention, EqualsTheFormulaAndItsGradients) {
  const StateTensors states = random_states(37, 8);
  const Result plain =
      run(states, at::kFloat, Loss::both, [&](const auto& s) { return plain_attention(s, 0.3); });
  const Result exact =
      run(states, at::kDouble, Loss::both, [&](const auto& s) { return naive(s, 0.3); });
  EXPECT_LT(error(plain.output, exact.output), 2e-6);
  EXPECT_LT(error(plain.first, exact.first), 2e-6);
  EXPECT_LT(error(plain.query, exact.query), 2e-5);
  EXPECT_LT(error(plain.key, exact.key), 2e-5);
  EXPECT_LT(error(plain.value, exact.value), 2e-5);
}

TEST(FastAttention, AppliesOnlyWhereItsTilesFit) {
  EXPECT_TRUE(fast_attention_applies(random_states(4, 32)));
  EXPECT_FALSE(fast_attention_applies(random_states(4, 8)));
}

}  // namespace
}  // namespace kvloupe::train
