#include "analysis/policy/kit/distance_decay.h"

#include <algorithm>
#include <cmath>
#include <span>

#include "analysis/metric/rope.h"
#include "analysis/numeric/logit_rule.h"

namespace kvloupe {

namespace {
/// Mean of the first `end` rows, each turned back by its position.
Eigen::VectorXd mean_before_rope(const Matrix& rows, int end, const Rope& rope) {
  Eigen::VectorXd sum = Eigen::VectorXd::Zero(rows.cols());
  for (int token = 0; token < end; ++token) {
    Eigen::VectorXd row = rows.row(token).transpose().cast<double>();
    rope.turn(std::span<double>(row.data(), static_cast<std::size_t>(row.size())),
              -static_cast<double>(token));
    sum += row;
  }
  return sum / end;
}
}  // namespace

double far_sight(const SequenceTables& tables, int layer, int query_head, int positions) {
  const Trace& trace = tables.trace();
  const ModelInfo model = trace.layer_model(layer);
  const Rope rope(model);
  const LogitRule rule = trace.attention(layer).of(query_head);
  const Eigen::VectorXd query =
      mean_before_rope(trace.query(layer, query_head), tables.end(), rope);
  const Eigen::VectorXd key =
      mean_before_rope(trace.key(layer, query_head / model.group_size()), tables.end(), rope);
  std::vector<double> logits;
  for (int position = 0; position < positions; ++position) {
    // Rotation by the query's position against the key's is rotation by their distance.
    Eigen::VectorXd turned = query;
    rope.turn(std::span<double>(turned.data(), static_cast<std::size_t>(turned.size())),
              static_cast<double>(positions - 1 - position));
    logits.push_back(rule.logit(turned.dot(key)));
  }
  const double largest = *std::max_element(logits.begin(), logits.end());
  double total = 0.0, sum_of_sums = 0.0;
  for (const double logit : logits) {
    total += std::exp(logit - largest);
    sum_of_sums += total;
  }
  return sum_of_sums / total / positions;
}

}  // namespace kvloupe
