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
}  // namespace

QueryHeadMetrics output_perturbation(std::span<const float> logits,
                                     std::span<const std::int32_t> kept, const MatrixView& values,
                                     const Matrix* output_weight,
                                     std::span<const float> value_norms_l1,
                                     std::span<const float> value_norms_l2) {
  const std::size_t n = logits.size();
  QueryHeadMetrics result;

  // A over the whole prefix [n], A' over the kept entries [kept].
  double largest = -std::numeric_limits<double>::infinity();
  for (const float logit : logits) largest = std::max(largest, static_cast<double>(logit));
  std::vector<double> attention(n);
  double sum = 0.0;
  for (std::size_t i = 0; i < n; ++i) sum += attention[i] = std::exp(logits[i] - largest);
  for (double& a : attention) a /= sum;

  double largest_kept = -std::numeric_limits<double>::infinity();
  for (const std::int32_t i : kept) {
    largest_kept = std::max(largest_kept, static_cast<double>(logits[static_cast<std::size_t>(i)]));
  }
  std::vector<double> renormalised(kept.size());
  double sum_kept = 0.0;
  for (std::size_t j = 0; j < kept.size(); ++j) {
    const auto i = static_cast<std::size_t>(kept[j]);
    sum_kept += renormalised[j] = std::exp(logits[i] - largest_kept);
    result.retained_mass += attention[i];
  }
  for (double& a : renormalised) a /= sum_kept;

  // (A − A')V [d].
  std::vector<double> difference = attention;
  for (std::size_t j = 0; j < kept.size(); ++j) {
    difference[static_cast<std::size_t>(kept[j])] -= renormalised[j];
  }
  Eigen::VectorXd head_error = Eigen::VectorXd::Zero(values.cols());
  for (std::size_t i = 0; i < n; ++i) {
    if (difference[i] != 0.0) {
      head_error += difference[i] *
                    values.row(static_cast<Eigen::Index>(i)).cast<double>().transpose();
    }
  }
  result.head_error_l2 = head_error.norm();

  if (output_weight == nullptr) {
    result.perturbation_l1 = result.perturbation_l2 = kUnknown;
  } else {
    Eigen::VectorXd output = Eigen::VectorXd::Zero(output_weight->cols());
    for (Eigen::Index j = 0; j < output_weight->rows(); ++j) {
      output += head_error[j] * output_weight->row(j).cast<double>().transpose();
    }
    result.perturbation_l1 = output.lpNorm<1>();
    result.perturbation_l2 = output.norm();
  }
  result.bound_l1 = bound(attention, renormalised, kept, value_norms_l1);
  result.bound_l2 = bound(attention, renormalised, kept, value_norms_l2);
  return result;
}

}  // namespace kvloupe
