#include "analysis/policy/kit/window_attention.h"

#include <algorithm>
#include <cmath>

#include "analysis/numeric/logit_rule.h"

namespace kvloupe {

Eigen::MatrixXd window_attention(const Trace& trace, int layer, int query_head, int window,
                                 int end) {
  const ModelInfo model = trace.layer_model(layer);
  const LogitRule rule = trace.attention(layer).of(query_head);
  const int count = std::min(window, end);
  const Matrix queries = trace.query(layer, query_head);
  const Matrix keys = trace.key(layer, query_head / model.group_size());
  Matrix logits = queries.middleRows(end - count, count) * keys.topRows(end).transpose();
  to_logits(logits, rule);
  Eigen::MatrixXd rows = Eigen::MatrixXd::Zero(count, end);
  for (int row = 0; row < count; ++row) {
    const int token = end - count + row;
    const int first = first_seen(token, model.reach());
    const auto seen = logits.row(row).segment(first, token + 1 - first).cast<double>().array();
    double shift = seen.maxCoeff();
    if (rule.has_sink()) shift = std::max(shift, rule.sink);
    const Eigen::ArrayXd weights = (seen - shift).exp();
    rows.row(row).segment(first, token + 1 - first) =
        (weights / with_sink(weights.sum(), shift, rule)).matrix().transpose();
  }
  return rows;
}

}  // namespace kvloupe
