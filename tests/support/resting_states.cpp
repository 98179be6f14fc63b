#include "tests/support/resting_states.h"

namespace kvloupe::test {

void rest_on_first(SyntheticStates& states, float logit) {
  const auto scale = static_cast<float>(states.run.attention_scale);
  for (std::size_t layer = 0; layer < states.key.size(); ++layer) {
    for (int query_head = 0; query_head < states.model.num_heads; ++query_head) {
      Matrix& key = states.key[layer][states.model.head_of(query_head)];
      Matrix& query = states.query[layer][query_head];
      const float length = key.row(0).norm();
      const Eigen::RowVectorXf alone = key.row(0) / length;  // no other key lies along it
      for (Eigen::Index i = 1; i < key.rows(); ++i) key.row(i) -= key.row(i).dot(alone) * alone;
      for (Eigen::Index i = 0; i < query.rows(); ++i) {
        query.row(i) += (logit / (scale * length) - query.row(i).dot(alone)) * alone;
      }
    }
  }
}

}  // namespace kvloupe::test
