#include "analysis/math/rank_correlation.h"

#include <cmath>
#include <limits>
#include <stdexcept>

#include "analysis/math/angle.h"
#include "analysis/math/attention.h"
#include "analysis/math/numeric/statistics.h"

namespace kvloupe {

double spearman(std::span<const double> a, std::span<const double> b) {
  if (a.size() != b.size()) throw std::invalid_argument("spearman: lengths differ");
  const std::vector<double> a_ranks = ranks_of(a), b_ranks = ranks_of(b);
  // Ranks with ties shared have this mean whatever the ties.
  const double mean = 0.5 * (static_cast<double>(a.size()) + 1.0);
  double products = 0.0, a_squares = 0.0, b_squares = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    products += (a_ranks[i] - mean) * (b_ranks[i] - mean);
    a_squares += (a_ranks[i] - mean) * (a_ranks[i] - mean);
    b_squares += (b_ranks[i] - mean) * (b_ranks[i] - mean);
  }
  if (!(a_squares > 0.0) || !(b_squares > 0.0)) return std::numeric_limits<double>::quiet_NaN();
  return products / std::sqrt(a_squares * b_squares);
}

CorrelationInterval spearman_interval(std::span<const double> a, std::span<const double> b) {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  CorrelationInterval result{spearman(a, b), kNan, kNan};
  if (a.size() < 4) return result;
  constexpr double kNormalQuantile = 1.959963984540054;
  const double reach = kNormalQuantile * std::sqrt((1.0 + result.rho * result.rho / 2.0) /
                                                   (static_cast<double>(a.size()) - 3.0));
  result.low = std::tanh(std::atanh(result.rho) - reach);
  result.high = std::tanh(std::atanh(result.rho) + reach);
  return result;
}

KeyAttention key_attention(const MatrixView& keys, std::span<const Matrix> queries,
                           const LayerAttention& attention, const Reach& reach,
                           Progress& progress) {
  KeyAttention result;
  result.mean_cosines = mean_cosines_to_others(keys);
  result.received.assign(static_cast<std::size_t>(keys.rows()), 0.0);
  for (std::size_t query_head = 0; query_head < queries.size(); ++query_head) {
    const std::vector<float> one =
        received_attention(view(queries[query_head]), keys,
                           attention.of(static_cast<int>(query_head)), reach, progress);
    for (std::size_t i = 0; i < one.size(); ++i) {
      result.received[i] += static_cast<double>(one[i]) / static_cast<double>(queries.size());
    }
  }
  result.correlation = keys.rows() < 2 ? std::numeric_limits<double>::quiet_NaN()
                                       : spearman(result.mean_cosines, result.received);
  return result;
}

}  // namespace kvloupe
