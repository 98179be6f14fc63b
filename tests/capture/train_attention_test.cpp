// The trainer's attention against the transformer's own, values and gradients.

#include <gtest/gtest.h>
#include <torch/types.h>

#include <cmath>

#include "capture/train/causal_attention_op.h"

namespace kvloupe::train {
namespace {

struct Result {
  at::Tensor output, query, key, value;
};

StateTensors random_states(std::int64_t length, std::int64_t dim) {
  at::manual_seed(5);
  StateTensors states{at::randn({2, 4, length, dim}, at::kDouble) * 2.0,
                      at::randn({2, 2, length, dim}, at::kDouble) * 2.0,
                      at::randn({2, 2, length, dim}, at::kDouble)};
  return states;
}

template <typename Attend>
Result run(const StateTensors& source, at::ScalarType type, const Attend& attend) {
  const auto leaf = [&](const at::Tensor& tensor) {
    return tensor.to(type).detach().clone().requires_grad_(true);
  };
  const StateTensors states{leaf(source.query), leaf(source.key), leaf(source.value)};
  const at::Tensor output = attend(states);
  const at::Tensor weights = at::linspace(-1.0, 1.0, output.numel(), output.options());
  (output * weights.view(output.sizes())).sum().backward();
  return {output.detach().to(at::kDouble), states.query.grad().to(at::kDouble),
          states.key.grad().to(at::kDouble), states.value.grad().to(at::kDouble)};
}

/// Reads like the formula, in double precision.
at::Tensor naive(const StateTensors& states, double scale) {
  const std::int64_t length = states.query.size(2);
  const at::Tensor key = states.key.repeat_interleave(2, 1);
  const at::Tensor value = states.value.repeat_interleave(2, 1);
  const at::Tensor later = at::ones({length, length}, at::kBool).triu(1);
  const at::Tensor logits =
      (at::matmul(states.query, key.transpose(-1, -2)) * scale).masked_fill(later, -INFINITY);
  return at::matmul(at::softmax(logits, -1), value);
}

double error(const at::Tensor& value, const at::Tensor& reference) {
  return ((value - reference).norm() / reference.norm()).item<double>();
}

TEST(FastAttention, EqualsTheFormulaAndItsGradients) {
  for (const std::int64_t length : {1, 7, 64, 65, 150}) {
    for (const std::int64_t dim : {16, 32, 48}) {
      const StateTensors states = random_states(length, dim);
      const double scale = 1.0 / std::sqrt(static_cast<double>(dim));
      const Result fast =
          run(states, at::kFloat, [&](const StateTensors& s) { return fast_attention(s, scale); });
      const Result exact =
          run(states, at::kDouble, [&](const StateTensors& s) { return naive(s, scale); });
      EXPECT_LT(error(fast.output, exact.output), 2e-6) << length << " " << dim;
      EXPECT_LT(error(fast.value, exact.value), 2e-6) << length << " " << dim;
      if (length == 1) continue;  // one key takes all: queries and keys have no gradient
      EXPECT_LT(error(fast.query, exact.query), 2e-5) << length << " " << dim;
      EXPECT_LT(error(fast.key, exact.key), 2e-5) << length << " " << dim;
    }
  }
}

TEST(FastAttention, TakesStatesInSixteenBits) {
  const StateTensors states = random_states(40, 32);
  const Result fast =
      run(states, at::kBFloat16, [&](const StateTensors& s) { return fast_attention(s, 0.2); });
  const StateTensors rounded{states.query.to(at::kBFloat16), states.key.to(at::kBFloat16),
                             states.value.to(at::kBFloat16)};
  const Result exact =
      run(rounded, at::kDouble, [&](const StateTensors& s) { return naive(s, 0.2); });
  EXPECT_LT(error(fast.output, exact.output), 2e-6);
  EXPECT_LT(error(fast.query, exact.query), 5e-3);
}

TEST(FastAttention, AppliesOnlyWhereItsTilesFit) {
  EXPECT_TRUE(fast_attention_applies(random_states(4, 32)));
  EXPECT_FALSE(fast_attention_applies(random_states(4, 8)));
}

}  // namespace
}  // namespace kvloupe::train
