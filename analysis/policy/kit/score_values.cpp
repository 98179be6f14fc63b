#include "analysis/policy/kit/score_values.h"

#include <algorithm>
#include <cmath>

namespace kvloupe {

std::vector<double> smoothed(const std::vector<double>& values, int kernel, Pool pool, int n) {
  const int half = kernel / 2;
  std::vector<double> result = values;
  for (int i = 0; i < n; ++i) {
    double sum = 0.0;
    double largest = 0.0;
    for (int j = std::max(i - half, 0); j <= std::min(i + half, n - 1); ++j) {
      sum += values[static_cast<std::size_t>(j)];
      largest = std::max(largest, values[static_cast<std::size_t>(j)]);
    }
    // A comparison would ignore a NaN; a sum does not.
    const bool by_maximum = pool == Pool::maximum && std::isfinite(sum);
    result[static_cast<std::size_t>(i)] = by_maximum ? largest : sum / kernel;
  }
  return result;
}

namespace {
constexpr double kSmall = 1e-30;  // float32 has its digits down to 1.2e-38
constexpr double kRoot = 64.0;
const double kLogSmall = std::log(kSmall);
}  // namespace

float score_of_logarithm(double logarithm) {
  const bool small = logarithm < kLogSmall;
  return static_cast<float>(
      std::exp(small ? kLogSmall + (logarithm - kLogSmall) / kRoot : logarithm));
}

double logarithm_of_score(float score) {
  const double logarithm = std::log(static_cast<double>(score));
  return logarithm < kLogSmall ? kLogSmall + (logarithm - kLogSmall) * kRoot : logarithm;
}

std::vector<float> with_small_scores(const std::vector<double>& scores) {
  std::vector<float> result;
  result.reserve(scores.size());
  for (const double score : scores) {
    result.push_back(score < kSmall ? score_of_logarithm(std::log(score))
                                    : static_cast<float>(score));
  }
  return result;
}

}  // namespace kvloupe
