#include "analysis/metric/perturbation.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace kvloupe {

namespace {
constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

/// θ for one norm.
double bound(const std::vector<double>& attention, const std::vector<double>& renormalised,
             std::span<const std::int32_t> kept, std::span<const float> norms) {
  if (norms.empty()) return kUnknown;
  double all = 0.0, kept_full = 0.0, kept_renormalised = 0.0;
  for (std::size_t i = 0; i < attention.size(); ++i) all += attention[i] * norms[i];
  for (std::size_t j = 0; j < kept.size(); ++j) {
    const auto i = static_cast<std::size_t>(kept[j]);
    kept_full += attention[i] * norms[i];
    kept_renormalised += renormalised[j] * norms[i];
  }
  return all - 2.0 * kept_full + kept_renormalised;
}

/// Adds Σ weights_i · values_i to `sum` [d].
void add_weighted(Eigen::VectorXd& sum, const std::vector<double>& weights,
                  const MatrixView& values) {
  for (std::size_t i = 0; i < weights.size(); ++i) {
    if (weights[i] == 0.0) continue;
    sum += weights[i] * values.row(static_cast<Eigen::Index>(i)).cast<double>().transpose();
  }
}

/// Norms of what the head's output lost [d], before and after W_O.
void fill_norms(QueryHeadMetrics& result, const Eigen::VectorXd& head_error,
                const Matrix* output_weight) {
  result.head_error_l2 = head_error.norm();
  if (output_weight == nullptr) {
    result.perturbation_l1 = result.perturbation_l2 = kUnknown;
    return;
  }
  Eigen::VectorXd output = Eigen::VectorXd::Zero(output_weight->cols());
  for (Eigen::Index j = 0; j < output_weight->rows(); ++j) {
    output += head_error[j] * output_weight->row(j).cast<double>().transpose();
  }
  result.perturbation_l1 = output.lpNorm<1>();
  result.perturbation_l2 = output.norm();
}
}  // namespace

std::vector<double> softmax(std::span<const float> logits) {
  double largest = -std::numeric_limits<double>::infinity();
  for (const float logit : logits) largest = std::max(largest, static_cast<double>(logit));
  std::vector<double> attention(logits.size());
  double sum = 0.0;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    sum += attention[i] = std::exp(static_cast<double>(logits[i]) - largest);
  }
  for (double& a : attention) a /= sum;
  return attention;
}

QueryHeadMetrics output_perturbation(std::span<const float> logits,
                                     std::span<const std::int32_t> kept, const MatrixView& values,
                                     const Matrix* output_weight,
                                     std::span<const float> value_norms_l1,
                                     std::span<const float> value_norms_l2) {
  QueryHeadMetrics result;
  // A over the whole prefix [n], A' over the kept entries [kept].
  const std::vector<double> attention = softmax(logits);
  std::vector<float> kept_logits;
  for (const std::int32_t i : kept) {
    kept_logits.push_back(logits[static_cast<std::size_t>(i)]);
    result.retained_mass += attention[static_cast<std::size_t>(i)];
  }
  const std::vector<double> renormalised = softmax(kept_logits);

  // (A − A')V [d].
  std::vector<double> difference = attention;
  for (std::size_t j = 0; j < kept.size(); ++j) {
    difference[static_cast<std::size_t>(kept[j])] -= renormalised[j];
  }
  Eigen::VectorXd head_error = Eigen::VectorXd::Zero(values.cols());
  add_weighted(head_error, difference, values);
  fill_norms(result, head_error, output_weight);
  result.bound_l1 = bound(attention, renormalised, kept, value_norms_l1);
  result.bound_l2 = bound(attention, renormalised, kept, value_norms_l2);
  return result;
}

QueryHeadMetrics merged_perturbation(std::span<const float> logits,
                                     std::span<const std::int32_t> kept, const MatrixView& values,
                                     std::span<const float> cache_logits,
                                     const MatrixView& cache_values, const Matrix* output_weight) {
  QueryHeadMetrics result;
  const std::vector<double> attention = softmax(logits);
  for (const std::int32_t i : kept) result.retained_mass += attention[static_cast<std::size_t>(i)];
  Eigen::VectorXd head_error = Eigen::VectorXd::Zero(values.cols());
  add_weighted(head_error, softmax(cache_logits), cache_values);
  head_error = -head_error;
  add_weighted(head_error, attention, values);
  fill_norms(result, head_error, output_weight);
  result.bound_l1 = result.bound_l2 = kUnknown;
  return result;
}

}  // namespace kvloupe
