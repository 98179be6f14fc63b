#include "analysis/policy/kit/future_rotation.h"
#include "analysis/math/numeric/logit_rule.h"

#include <algorithm>
#include <cmath>
#include <span>

namespace kvloupe {

FutureRotation::FutureRotation(const Rope& rope, int first, int count) {
  for (std::size_t j = 0; j < rope.pairs(); ++j) {
    const Rope::Pair pair = rope.pair(j);
    // The sum is geometric: exp(i (first + (count − 1)/2) ω) sin(count ω/2) / sin(ω/2).
    const double below = std::sin(pair.frequency / 2.0);
    const double length =
        std::abs(below) < 1e-9 ? 1.0 : std::sin(count * pair.frequency / 2.0) / (count * below);
    const double angle = (first + (count - 1) / 2.0) * pair.frequency;
    turns_.push_back({pair, length * std::cos(angle), length * std::sin(angle)});
  }
}

Eigen::VectorXd FutureRotation::of(const Eigen::VectorXd& query) const {
  Eigen::VectorXd result = query;
  for (const Turn& turn : turns_) {
    const double x = query[turn.pair.first], y = query[turn.pair.second];
    result[turn.pair.first] = x * turn.real - y * turn.imaginary;
    result[turn.pair.second] = y * turn.real + x * turn.imaginary;
  }
  return result;
}

Eigen::MatrixXd FutureRotation::of(const Eigen::MatrixXd& covariance) const {
  Eigen::MatrixXd half(covariance.rows(), covariance.cols());  // R̄ Σ
  for (Eigen::Index c = 0; c < covariance.cols(); ++c) half.col(c) = of(covariance.col(c).eval());
  Eigen::MatrixXd result(covariance.rows(), covariance.cols());
  for (Eigen::Index r = 0; r < half.rows(); ++r) {
    result.row(r) = of(half.row(r).transpose().eval()).transpose();
  }
  return result;
}

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
