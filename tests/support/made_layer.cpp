#include "tests/support/made_layer.h"

#include <cmath>

#include "tests/support/cells.h"

namespace kvloupe::test {

LayerStates made_layer(const SyntheticStates& states, int layer) {
  LayerStates result;
  result.keys = states.key[layer];
  result.queries = states.query[layer];
  result.values = states.value[layer];
  result.output_weights.assign(states.output_weight[layer].begin(),
                               states.output_weight[layer].end());
  for (int query_head = 0; query_head < states.model.num_heads; ++query_head) {
    const Matrix outputs =
        result.values[states.model.head_of(query_head)] * states.output_weight[layer][query_head];
    result.value_norms_l1.emplace_back();
    result.value_norms_l2.emplace_back();
    for (Eigen::Index i = 0; i < outputs.rows(); ++i) {
      result.value_norms_l1.back().push_back(outputs.row(i).lpNorm<1>());
      result.value_norms_l2.back().push_back(outputs.row(i).norm());
    }
  }
  return result;
}

Matrix made_gate(int tokens, int width, int query_head) {
  Matrix gate(tokens, width);
  for (const auto& [token, c] : cells(tokens, width))
    gate(token, c) =
        0.5F + 0.45F * std::sin(static_cast<float>(3 * token + 7 * c + 11 * query_head));
  return gate;
}

}  // namespace kvloupe::test
