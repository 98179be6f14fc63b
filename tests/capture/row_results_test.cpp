// The results of a capture for single rows: the norms of value outputs and the largest logits,
// against plain loops in double precision.
#include "capture/run/layer_writer.h"
#include "capture/run/predictions.h"
#include "tests/support/random_matrix.h"
#include "tests/support/test.h"

namespace kvloupe::test {
namespace {

TEST(ValueNorms, AreThoseOfTheProduct) {
  if (!ValueNorms::available()) GTEST_SKIP() << "this processor has no kernel";
  for (const auto& [outputs, d, m] : {std::array{20, 6, 5}, {576, 64, 130}, {100, 33, 8}}) {
    const Matrix columns = random_matrix(outputs, d, 3), values = random_matrix(m, d, 4);
    std::vector<float> l1(static_cast<std::size_t>(m)), l2(l1);
    ValueNorms(columns.data(), outputs, d).measure(values.data(), m, l1.data(), l2.data());
    for (int i = 0; i < m; ++i) {
      double absolute = 0.0, square = 0.0;
      for (int o = 0; o < outputs; ++o) {
        double product = 0.0;
        for (int c = 0; c < d; ++c) {
          product += static_cast<double>(values(i, c)) * static_cast<double>(columns(o, c));
        }
        absolute += std::abs(product);
        square += product * product;
      }
      EXPECT_NEAR(static_cast<double>(l1[i]), absolute, 1e-6 * absolute);
      EXPECT_NEAR(static_cast<double>(l2[i]), std::sqrt(square), 1e-6 * std::sqrt(square));
    }
  }
}

TEST(TopLogits, AreThoseOfTensors) {
  at::manual_seed(7);
  for (const auto& [rows, vocab, k] :
       {std::array{3, 1, 1}, {2, 5, 5}, {40, 3001, 5}, {4, 900, 3}}) {
    const at::Tensor logits = at::randn({rows, vocab}) * 20.0;
    const auto [values, indices] = at::topk(logits, k, 1);
    const at::Tensor normaliser = at::logsumexp(logits.to(at::kDouble), {1}, true);
    for (const auto& top : {top_logits, sorted_logits}) {
      const TopLogits found = top(logits, k);
      EXPECT_TRUE(found.values.equal(values));
      EXPECT_TRUE(found.indices.equal(indices));
      EXPECT_TRUE(at::allclose(found.normaliser.to(at::kDouble), normaliser, 1e-6, 1e-6));
    }
  }
}

TEST(TopLogits, OfEqualOnesTheFirstComeFirst) {
  at::Tensor logits = at::zeros({2, 9000});
  logits[0][300] = 1.0;
  logits[0][650] = 1.0;
  for (const auto& top : {top_logits, sorted_logits}) {
    const TopLogits found = top(logits, 4);
    EXPECT_TRUE(found.indices[0].equal(at::tensor({300, 650, 0, 1}, at::kLong)));
    EXPECT_TRUE(found.indices[1].equal(at::arange(4)));
  }
}

TEST(TopLogits, WhatIsNoNumberShows) {
  for (const float bad :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    for (const int at : {0, 1, 650}) {
      at::Tensor logits = at::randn({1, 700});
      logits[0][at] = bad;
      const TopLogits found = top_logits(logits, 5);
      EXPECT_FALSE((found.values - found.normaliser).isfinite().all().item<bool>());
    }
  }
}

}  // namespace
}  // namespace kvloupe::test
