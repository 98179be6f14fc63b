#include "analysis/metric/perturbation.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "analysis/numeric/float_rows.h"
#include "analysis/unknown.h"

namespace kvloupe {

namespace {

/// A of what is evicted, and A' of what is kept: all that ℒ and θ are made of. Nothing here is a
/// difference of two large numbers: A' − A of a kept entry is A' times the evicted mass, so that
/// both keep all their digits however little, or however much, is evicted.
struct Split {
  std::vector<double> evicted;  // [n] A where evicted, else 0
  std::vector<double> kept;     // [n] A' where kept, else 0
  double evicted_mass = 0.0;
  double kept_mass = 0.0;  // S
};

Split split(std::span<const float> logits, std::span<const double> attention,
            std::span<const std::int32_t> kept, double sink) {
  Split result;
  result.evicted.assign(attention.begin(), attention.end());
  result.kept_mass = sink_share(logits, sink);
  result.kept.assign(logits.size(), 0.0);
  std::vector<float> kept_logits;
  for (const std::int32_t row : kept) {
    const auto i = static_cast<std::size_t>(row);
    kept_logits.push_back(logits[i]);
    result.kept_mass += std::exchange(result.evicted[i], 0.0);
  }
  // From their own logits: what is kept may hold nothing of the whole that a double can tell.
  const std::vector<double> renormalised = softmax(kept_logits, sink);
  for (std::size_t j = 0; j < kept.size(); ++j) {
    result.kept[static_cast<std::size_t>(kept[j])] = renormalised[j];
  }
  for (const double a : result.evicted) result.evicted_mass += a;
  if (result.kept_mass > 0.5) result.kept_mass = 1.0 - result.evicted_mass;
  return result;
}

/// θ for one norm.
double bound(const Split& a, std::span<const float> norms) {
  if (norms.empty()) return kUnknown;
  double evicted = 0.0, kept = 0.0;
  for (std::size_t i = 0; i < norms.size(); ++i) {
    evicted += a.evicted[i] * static_cast<double>(norms[i]);
    kept += a.kept[i] * static_cast<double>(norms[i]);
  }
  return evicted + a.evicted_mass * kept;
}

/// Adds Σ weights_i · values_i to `sum` [d].
void add_weighted(Eigen::VectorXd& sum, const std::vector<double>& weights,
                  const MatrixView& values) {
  for (std::size_t i = 0; i < weights.size(); ++i) {
    if (weights[i] == 0.0) continue;
    add_row(sum.data(), values.data() + static_cast<Eigen::Index>(i) * values.outerStride(),
            weights[i], static_cast<std::size_t>(values.cols()));
  }
}

/// Norms of what the head's output lost [d], before and after W_O.
void fill_norms(QueryHeadMetrics& result, const Eigen::VectorXd& head_error,
                const OutputWeight* output_weight) {
  result.head_error_l2 = head_error.norm();
  if (output_weight == nullptr) {
    result.perturbation_l1 = result.perturbation_l2 = kUnknown;
    return;
  }
  const Eigen::VectorXd output = output_weight->apply(head_error);
  result.perturbation_l1 = output.lpNorm<1>();
  result.perturbation_l2 = output.norm();
}
}  // namespace

std::vector<double> softmax(std::span<const float> logits, double sink) {
  double largest = sink;
  for (const float logit : logits) largest = std::max(largest, static_cast<double>(logit));
  std::vector<double> attention(logits.size());
  double sum = sink == LogitRule::kNoSink ? 0.0 : std::exp(sink - largest);
  for (std::size_t i = 0; i < logits.size(); ++i) {
    sum += attention[i] = std::exp(static_cast<double>(logits[i]) - largest);
  }
  for (double& a : attention) a /= sum;
  return attention;
}

double sink_share(std::span<const float> logits, double sink) {
  if (sink == LogitRule::kNoSink) return 0.0;
  double largest = sink, sum = 0.0;
  for (const float logit : logits) largest = std::max(largest, static_cast<double>(logit));
  for (const float logit : logits) sum += std::exp(static_cast<double>(logit) - largest);
  const double own = std::exp(sink - largest);
  return own / (sum + own);
}

QueryHeadMetrics output_perturbation(std::span<const float> logits,
                                     std::span<const std::int32_t> kept, const MatrixView& values,
                                     const OutputWeight* output_weight,
                                     std::span<const float> value_norms_l1,
                                     std::span<const float> value_norms_l2, double sink) {
  return output_perturbation(logits, softmax(logits, sink), kept, values, output_weight,
                             value_norms_l1, value_norms_l2, sink);
}

QueryHeadMetrics output_perturbation(std::span<const float> logits,
                                     std::span<const double> attention,
                                     std::span<const std::int32_t> kept, const MatrixView& values,
                                     const OutputWeight* output_weight,
                                     std::span<const float> value_norms_l1,
                                     std::span<const float> value_norms_l2, double sink) {
  QueryHeadMetrics result;
  const Split a = split(logits, attention, kept, sink);
  result.retained_mass = a.kept_mass;
  if (values.rows() > 0) {
    // (A − A')V [d]: what is evicted, less what the others are given for it.
    Eigen::VectorXd head_error = Eigen::VectorXd::Zero(values.cols());
    add_weighted(head_error, a.kept, values);
    head_error *= -a.evicted_mass;
    add_weighted(head_error, a.evicted, values);
    fill_norms(result, head_error, output_weight);
  } else {
    result.perturbation_l1 = result.perturbation_l2 = result.head_error_l2 = kUnknown;
  }
  result.bound_l1 = bound(a, value_norms_l1);
  result.bound_l2 = bound(a, value_norms_l2);
  return result;
}

QueryHeadMetrics merged_perturbation(std::span<const float> logits,
                                     std::span<const std::int32_t> kept, const MatrixView& values,
                                     std::span<const float> cache_logits,
                                     const MatrixView& cache_values,
                                     const OutputWeight* output_weight, double sink) {
  QueryHeadMetrics result;
  const std::vector<double> attention = softmax(logits, sink);
  result.retained_mass = sink_share(logits, sink);
  for (const std::int32_t i : kept) result.retained_mass += attention[static_cast<std::size_t>(i)];
  Eigen::VectorXd head_error = Eigen::VectorXd::Zero(values.cols());
  add_weighted(head_error, softmax(cache_logits, sink), cache_values);
  head_error = -head_error;
  add_weighted(head_error, attention, values);
  fill_norms(result, head_error, output_weight);
  result.bound_l1 = result.bound_l2 = kUnknown;
  return result;
}

}  // namespace kvloupe
