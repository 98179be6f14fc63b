#include "analysis/measure/measured_step.h"

#include "analysis/metric/perturbation.h"

namespace kvloupe {

MeasuredStep::MeasuredStep(const Input& input)
    : input_(input),
      logits_(static_cast<std::size_t>(group())),
      attention_(static_cast<std::size_t>(group())) {}

int MeasuredStep::first_query_head() const { return input_.head * group(); }

MatrixView MeasuredStep::prefix_keys() const {
  return rows(view(input_.states.keys[static_cast<std::size_t>(input_.head)]), 0, prefix());
}

MatrixView MeasuredStep::prefix_values() const {
  return rows(view(input_.states.values[static_cast<std::size_t>(input_.head)]), 0, prefix());
}

const Matrix* MeasuredStep::output_weight(int query_head) const {
  const auto& weights = input_.states.output_weights;
  return weights.empty() ? nullptr : &weights[static_cast<std::size_t>(query_head)];
}

std::span<const float> MeasuredStep::value_out_norms(int query_head, Norm norm) const {
  const auto& known =
      norm == Norm::l1 ? input_.states.value_norms_l1 : input_.states.value_norms_l2;
  const auto index = static_cast<std::size_t>(query_head);
  if (known.empty() || known[index].empty()) return {};
  return std::span(known[index]).first(static_cast<std::size_t>(prefix()));
}

Eigen::VectorXf MeasuredStep::scaled_query(int query_head) const {
  const auto scale = static_cast<float>(input_.context.attention_scale);
  const Matrix& queries = input_.states.queries[static_cast<std::size_t>(query_head)];
  return scale * queries.row(prefix() - 1).transpose();
}

std::span<const float> MeasuredStep::logits(int query_head) {
  std::vector<float>& own = logits_[static_cast<std::size_t>(query_head - first_query_head())];
  if (own.empty()) {
    own.resize(static_cast<std::size_t>(prefix()));
    Eigen::Map<Eigen::VectorXf>(own.data(), prefix()).noalias() =
        prefix_keys() * scaled_query(query_head);
  }
  return own;
}

std::span<const double> MeasuredStep::attention(int query_head) {
  std::vector<double>& own = attention_[static_cast<std::size_t>(query_head - first_query_head())];
  if (own.empty()) own = softmax(logits(query_head));
  return own;
}

std::vector<float> MeasuredStep::cache_logits(int query_head) const {
  const CacheView present = input_.cache.view();
  std::vector<float> result(present.tokens.size());
  Eigen::Map<Eigen::VectorXf>(result.data(), static_cast<Eigen::Index>(result.size())).noalias() =
      present.keys * scaled_query(query_head);
  for (std::size_t i = 0; i < present.log_sizes.size(); ++i) result[i] += present.log_sizes[i];
  return result;
}

}  // namespace kvloupe
