#include "analysis/policy/kit/small_scores.h"

#include <cmath>

namespace kvloupe {

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
