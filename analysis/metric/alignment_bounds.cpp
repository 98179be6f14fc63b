#include "analysis/metric/alignment_bounds.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <vector>

#include "analysis/metric/angle.h"
#include "analysis/unknown.h"

namespace kvloupe {

namespace {

Eigen::RowVectorXd wide(std::span<const float> query) {
  return Eigen::Map<const Eigen::RowVectorXf>(query.data(), static_cast<Eigen::Index>(query.size()))
      .cast<double>();
}

void check_row(const MatrixView& keys, Eigen::Index star) {
  if (star < 0 || star >= keys.rows()) throw std::out_of_range("no such key");
}
}  // namespace

AttentionAlignment attention_alignment(std::span<const float> query, const MatrixView& keys,
                                       double scale, Eigen::Index star) {
  check_row(keys, star);
  const Eigen::RowVectorXd q = wide(query);
  const double stretch = q.norm() * scale;
  const Eigen::Index others = keys.rows() - 1;
  AttentionAlignment result;
  result.cosine = cosine(keys.row(star).cast<double>(), q);

  std::vector<double> logits;
  double largest = -std::numeric_limits<double>::infinity(), sum = 0.0, own = 0.0;
  result.squared_norm_limit = 1.0;
  for (Eigen::Index i = 0; i < keys.rows(); ++i) {
    const Eigen::RowVectorXd key = keys.row(i).cast<double>();
    const double logit = key.dot(q) * scale;
    result.squared_norm_limit =
        std::max(result.squared_norm_limit, key.squaredNorm() * stretch * stretch);
    if (i == star) {
      own = logit;
      continue;
    }
    logits.push_back(logit);
    largest = std::max(largest, logit);
    sum += logit;
  }
  if (others == 0) {
    result.weight = 1.0;
    result.paper_bound = result.jensen_bound = kUnknown;
    return result;
  }
  double exponentials = 0.0;
  for (const double logit : logits) exponentials += std::exp(logit - largest);
  const double of_others = largest + std::log(exponentials);  // log Σ exp(k_i·q)
  const double log_odds = own - of_others;                    // log(w/(1−w))
  result.weight = 1.0 / (1.0 + std::exp(-log_odds));
  // −log(1−w) = log(1 + w/(1−w)), without cancellation where w is near 1 or 0.
  const double minus_log_rest =
      log_odds > 0.0 ? log_odds + std::log1p(std::exp(-log_odds)) : std::log1p(std::exp(log_odds));
  const auto n = static_cast<double>(others);
  if (stretch > 0.0) {
    result.paper_bound =
        (std::log(n / (n + 1.0)) + minus_log_rest) / (2.0 * result.squared_norm_limit) - 1.0;
  } else {
    result.paper_bound = kUnknown;
  }
  const double star_norm = keys.row(star).cast<double>().norm() * stretch;
  result.jensen_bound = star_norm > 0.0 ? (log_odds + std::log(n) + sum / n) / star_norm : kUnknown;
  return result;
}

Eigen::Index strongest_key(std::span<const float> query, const MatrixView& keys) {
  const Eigen::RowVectorXd q = wide(query);
  Eigen::Index best = -1;
  double most = -std::numeric_limits<double>::infinity();
  for (Eigen::Index i = 0; i < keys.rows(); ++i) {
    const double product = keys.row(i).cast<double>().dot(q);
    if (product >= most) {
      most = product;
      best = i;
    }
  }
  return best;
}

MeanKeyAlignment mean_key_alignment(std::span<const float> query, const MatrixView& keys,
                                    Eigen::Index star) {
  check_row(keys, star);
  const Eigen::RowVectorXd q = wide(query);
  const Eigen::RowVectorXd mean = mean_row(keys);
  const Eigen::RowVectorXd own = keys.row(star).cast<double>();
  MeanKeyAlignment result;
  result.alpha = cosine(mean, q);
  result.beta = cosine(own, q);
  result.measured = cosine(mean, own);
  const double difference = result.alpha - result.beta;
  result.paper_bound = 1.0 - 0.5 * difference * difference;
  result.tight_bound = std::cos(std::acos(result.alpha) - std::acos(result.beta));
  return result;
}

}  // namespace kvloupe
