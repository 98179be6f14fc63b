// The measures of the demo model, for a query that rests on token 0 and on nothing else.

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "tests/capture/whole_model.h"
#include "trainer/measure.h"

namespace kvloupe::train {
namespace {

/// States of one text: every query exceeds all its other logits by `gap` at token 0.
StateTensors resting_states(int heads, int key_heads, int length, int width, double gap) {
  at::manual_seed(3);
  StateTensors states;
  states.query = 0.3 * at::randn({1, heads, length, width});
  states.key = 0.3 * at::randn({1, key_heads, length, width});
  states.value = at::randn({1, key_heads, length, width});
  // One channel is token 0's alone.
  states.query.select(3, 0).fill_(gap);
  states.key.select(3, 0).zero_();
  states.key.select(2, 0).select(2, 0).fill_(1.0);
  return states;
}

/// A row without token 0, in double, as the formula has it.
std::vector<double> row_without_first(const StateTensors& states, int head, int query,
                                      double scale) {
  const auto queries = states.query.accessor<float, 4>();
  const auto keys = states.key.accessor<float, 4>();
  const auto group = states.query.size(1) / states.key.size(1);
  std::vector<double> weights;
  double largest = -1e300;
  for (int key = 1; key <= query; ++key) {
    double logit = 0.0;
    for (std::int64_t c = 0; c < states.query.size(3); ++c) {
      logit += static_cast<double>(queries[0][head][query][c]) *
               static_cast<double>(keys[0][head / group][key][c]);
    }
    weights.push_back(logit * scale);
    largest = std::max(largest, weights.back());
  }
  double sum = 0.0;
  for (double& weight : weights) sum += weight = std::exp(weight - largest);
  for (double& weight : weights) weight /= sum;
  return weights;
}

// 20: token 0 has 1 − 2e-9 of the attention, exactly 1 in float32. 400: nothing else is a number
// above 0 there.
TEST(AttentionWithoutFirst, IsTheSoftmaxOfTheOthersHoweverLittleTheyHave) {
  constexpr int length = 9;
  constexpr double scale = 1.0;
  for (const double gap : {0.0, 20.0, 400.0}) {
    const StateTensors states = resting_states(4, 2, length, 8, gap);
    if (gap > 0.0) {
      const at::Tensor whole = causal_attention(states, scale);
      EXPECT_EQ(whole[0][1][length - 1][0].item<float>(), 1.0F) << gap;
    }
    const at::Tensor rows = attention_without_first(states, scale);
    ASSERT_EQ(rows.sizes(), (at::IntArrayRef{1, 4, length, length}));
    for (int head = 0; head < 4; ++head) {
      EXPECT_EQ(rows[0][head][0][0].item<float>(), 1.0F);  // it sees nothing else
      for (int query = 1; query < length; ++query) {
        EXPECT_EQ(rows[0][head][query][0].item<float>(), 0.0F);
        const std::vector<double> expected = row_without_first(states, head, query, scale);
        for (int key = 1; key < length; ++key) {
          const double wanted = key <= query ? expected[static_cast<std::size_t>(key - 1)] : 0.0;
          EXPECT_NEAR(rows[0][head][query][key].item<double>(), wanted, 1e-5)
              << gap << ", head " << head << ", query " << query << ", key " << key;
        }
      }
    }
  }
}

}  // namespace
}  // namespace kvloupe::train
