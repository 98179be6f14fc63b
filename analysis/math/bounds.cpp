#include "analysis/math/bounds.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <stdexcept>
#include <vector>

#include "analysis/base/text/unknown.h"
#include "analysis/math/angle.h"

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

namespace {

/// Sums over some entries: of A, and of A‖v W_O‖.
struct Sums {
  double mass = 0.0;
  double size = 0.0;
  void add(double attention, double norm) {
    mass += attention;
    size += attention * norm;
  }
};
}  // namespace

TwoStageBound two_stage_bound(std::span<const double> attention, std::span<const float> norms,
                              std::span<const std::int32_t> stage_one,
                              std::span<const std::int32_t> stage_two, double sink_share) {
  TwoStageBound result;
  enum Stage : std::uint8_t { kEvicted, kOne, kTwo };
  std::vector<Stage> stage(attention.size(), kEvicted);
  for (const std::int32_t row : stage_one) stage[static_cast<std::size_t>(row)] = kOne;
  for (const std::int32_t row : stage_two) stage[static_cast<std::size_t>(row)] = kTwo;
  Sums sums[3];
  sums[kOne].mass = sink_share;
  for (std::size_t i = 0; i < attention.size(); ++i) {
    sums[stage[i]].add(attention[i], norms.empty() ? 0.0 : static_cast<double>(norms[i]));
  }
  result.mass = sums[kOne].mass;
  result.bound = result.relaxed = kUnknown;
  if (norms.empty()) return result;
  if (result.mass <= 0.0) {
    result.bound = std::numeric_limits<double>::infinity();
    return result;
  }
  // C − (2 − 1/σ)·kept = evicted + (1/σ − 1)·kept, with 1 − σ the attention of all the others: a
  // small number is then not the difference of two large ones.
  const double factor = (sums[kTwo].mass + sums[kEvicted].mass) / result.mass;
  result.bound = sums[kEvicted].size + factor * (sums[kOne].size + sums[kTwo].size);
  if (result.mass > 0.5) {
    const auto least = static_cast<double>(*std::min_element(norms.begin(), norms.end()));
    const double two = least * sums[kTwo].mass;  // of its norms the least of all
    result.relaxed =
        sums[kEvicted].size + (sums[kTwo].size - two) + factor * (sums[kOne].size + two);
  }
  return result;
}

int entries_for_mass(std::span<const double> attention, double mass) {
  // Sorts only as far as needed: a few entries hold most of the attention.
  std::vector<double> rest(attention.begin(), attention.end());
  std::size_t sorted = 0;
  double sum = 0.0;
  for (std::size_t count = 32; sorted < rest.size(); count *= 4) {
    const std::size_t end = std::min(sorted + count, rest.size());
    const auto from = rest.begin() + static_cast<std::ptrdiff_t>(sorted);
    const auto to = rest.begin() + static_cast<std::ptrdiff_t>(end);
    if (to != rest.end()) std::nth_element(from, to, rest.end(), std::greater<>());
    std::sort(from, to, std::greater<>());
    for (; sorted < end; ++sorted) {
      sum += rest[sorted];
      if (sum > mass) return static_cast<int>(sorted) + 1;
    }
  }
  return static_cast<int>(rest.size());
}

double tightness(double perturbation, double bound) {
  // Below it, terms of the bound may be too small for all their digits, and so may the quotient's.
  constexpr double kLeast =
      std::numeric_limits<double>::min() / std::numeric_limits<double>::epsilon();
  return bound >= kLeast && std::isfinite(bound) ? perturbation / bound
                                                 : std::numeric_limits<double>::quiet_NaN();
}

}  // namespace kvloupe
