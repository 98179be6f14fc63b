#include "analysis/math/perturbation.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "analysis/base/text/unknown.h"
#include "analysis/math/numeric/float_rows.h"

namespace kvloupe {

namespace {

constexpr double kMuchEvicted = 1e-5;  // of the attention

/// A of the evicted entries, and A' of the kept ones: all that ℒ and θ are made of. Nothing here is
/// a difference of two large numbers: A' − A of a kept entry is A' times the evicted mass, so that
/// both keep all their digits however little, or however much, is evicted.
struct Split {
  std::vector<double> kept;  // A' of the kept rows
  double evicted_mass = 0.0;
  double kept_mass = 0.0;  // S
};

/// Calls `use`(row) for every row of `count` that is not kept, in their order.
template <typename Use>
void for_evicted(std::span<const std::int32_t> kept, std::size_t count, const Use& use) {
  std::int32_t row = 0;
  for (const std::int32_t stays : kept) {
    for (; row < stays; ++row) use(static_cast<std::size_t>(row));
    row = stays + 1;
  }
  for (; static_cast<std::size_t>(row) < count; ++row) use(static_cast<std::size_t>(row));
}

Split split(std::span<const float> logits, std::span<const double> attention,
            std::span<const std::int32_t> kept, double sink) {
  Split result;
  result.kept_mass = sink_share(logits, sink);
  for (const std::int32_t row : kept) result.kept_mass += attention[static_cast<std::size_t>(row)];
  result.kept = renormalised(logits, attention, kept, result.kept_mass, sink);
  double mass = 0.0;  // in a register: a sum in memory waits for each store
  for_evicted(kept, attention.size(), [&](std::size_t row) { mass += attention[row]; });
  result.evicted_mass = mass;
  if (result.kept_mass > 0.5) result.kept_mass = 1.0 - result.evicted_mass;
  return result;
}

/// The evicted rows with attention, ascending, and their A.
struct Evicted {
  std::vector<std::int32_t> rows;
  std::vector<double> attention;
};

Evicted evicted_rows(std::span<const double> attention, std::span<const std::int32_t> kept) {
  Evicted result;
  result.rows.reserve(attention.size() - kept.size());
  result.attention.reserve(attention.size() - kept.size());
  for_evicted(kept, attention.size(), [&](std::size_t row) {
    if (attention[row] == 0.0) return;
    result.rows.push_back(static_cast<std::int32_t>(row));
    result.attention.push_back(attention[row]);
  });
  return result;
}

/// θ for one norm.
double bound(const Split& a, const Evicted& evicted, std::span<const std::int32_t> kept_rows,
             std::span<const float> norms) {
  if (norms.empty()) return kUnknown;
  const auto sum = [&](std::span<const std::int32_t> rows, const std::vector<double>& weights) {
    double all = 0.0;
    for (std::size_t j = 0; j < rows.size(); ++j) {
      all += weights[j] * static_cast<double>(norms[static_cast<std::size_t>(rows[j])]);
    }
    return all;
  };
  return sum(evicted.rows, evicted.attention) + a.evicted_mass * sum(kept_rows, a.kept);
}

/// Adds Σ weights_j · values_rows[j] to `sum` [d].
void add_weighted(Eigen::VectorXd& sum, std::span<const std::int32_t> rows,
                  const std::vector<double>& weights, const MatrixView& values) {
  add_rows(sum.data(), values.data(), values.outerStride(), rows, weights,
           static_cast<std::size_t>(values.cols()));
}

/// The same over all rows.
void add_weighted(Eigen::VectorXd& sum, const std::vector<double>& weights,
                  const MatrixView& values) {
  std::vector<std::int32_t> all(weights.size());
  std::iota(all.begin(), all.end(), 0);
  add_weighted(sum, all, weights, values);
}

/// Norms of the loss [d] of the head's output, before and after W_O.
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

std::vector<double> renormalised(std::span<const float> logits, std::span<const double> attention,
                                 std::span<const std::int32_t> kept, double kept_mass,
                                 double sink) {
  // Far from the smallest double, a share of A over S has all its digits.
  constexpr double kLeastMass = 1e-100;
  std::vector<double> result(kept.size());
  if (kept_mass >= kLeastMass) {
    for (std::size_t j = 0; j < kept.size(); ++j) {
      result[j] = attention[static_cast<std::size_t>(kept[j])] / kept_mass;
    }
    return result;
  }
  // The kept share of the attention may be too small for a double.
  std::vector<float> own(kept.size());
  for (std::size_t j = 0; j < kept.size(); ++j) own[j] = logits[static_cast<std::size_t>(kept[j])];
  return softmax(own, sink);
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
                                     std::span<const float> value_norms_l2, double sink,
                                     std::span<const double> output) {
  QueryHeadMetrics result;
  const Split a = split(logits, attention, kept, sink);
  result.retained_mass = a.kept_mass;
  // o − A'V: a change of this size keeps ten digits, and most of the cache is evicted.
  const bool from_output = !output.empty() && a.evicted_mass > kMuchEvicted &&
                           kept.size() < attention.size() - kept.size();
  Evicted evicted;
  if (!from_output || !value_norms_l1.empty() || !value_norms_l2.empty())
    evicted = evicted_rows(attention, kept);
  if (values.rows() > 0) {
    Eigen::VectorXd head_error = Eigen::VectorXd::Zero(values.cols());
    add_weighted(head_error, kept, a.kept, values);
    if (from_output) {
      head_error =
          Eigen::Map<const Eigen::VectorXd>(output.data(), std::ssize(output)) - head_error;
    } else {
      // (A − A')V [d]: the evicted part, less the attention that the others gain.
      head_error *= -a.evicted_mass;
      add_weighted(head_error, evicted.rows, evicted.attention, values);
    }
    fill_norms(result, head_error, output_weight);
  } else {
    result.perturbation_l1 = result.perturbation_l2 = result.head_error_l2 = kUnknown;
  }
  result.bound_l1 = bound(a, evicted, kept, value_norms_l1);
  result.bound_l2 = bound(a, evicted, kept, value_norms_l2);
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

double joint_eviction_error(std::span<const double> attention, const MatrixView& values,
                            std::span<const std::int32_t> evicted, double sink_share) {
  std::vector<bool> leaves(attention.size(), false);
  for (const std::int32_t row : evicted) leaves[static_cast<std::size_t>(row)] = true;
  Eigen::VectorXd gone = Eigen::VectorXd::Zero(values.cols());
  Eigen::VectorXd rest = gone;
  double gone_mass = 0.0, rest_mass = sink_share;
  for (std::size_t i = 0; i < attention.size(); ++i) {
    if (attention[i] == 0.0) continue;
    const auto value = values.row(static_cast<Eigen::Index>(i)).cast<double>().transpose();
    if (leaves[i]) {
      gone += attention[i] * value;
      gone_mass += attention[i];
    } else {
      rest += attention[i] * value;
      rest_mass += attention[i];
    }
  }
  if (gone_mass == 0.0) return 0.0;
  if (rest_mass == 0.0) return std::numeric_limits<double>::infinity();
  return gone_mass / (gone_mass + rest_mass) * (gone / gone_mass - rest / rest_mass).norm();
}

}  // namespace kvloupe
