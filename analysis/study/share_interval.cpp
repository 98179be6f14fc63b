#include "analysis/study/share_interval.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>

namespace kvloupe {

MeanInterval wilson_share(long hits, long count) {
  if (count < 1) throw std::invalid_argument("wilson_share: no values");
  constexpr double kZ = 1.959963984540054;  // the normal distribution's quantile at 97.5 %
  const auto n = static_cast<double>(count);
  const double share = static_cast<double>(hits) / n;
  const double middle = (share + kZ * kZ / (2 * n)) / (1 + kZ * kZ / n);
  const double half =
      kZ / (1 + kZ * kZ / n) * std::sqrt(share * (1 - share) / n + kZ * kZ / (4 * n * n));
  return {share, hits == 0 ? 0.0 : middle - half, hits == count ? 1.0 : middle + half};
}

MeanInterval mean_interval(std::span<const double> values) {
  if (std::all_of(values.begin(), values.end(),
                  [](double value) { return value == 0.0 || value == 1.0; })) {
    return wilson_share(std::count(values.begin(), values.end(), 1.0),
                        static_cast<long>(values.size()));
  }
  return bootstrap_mean(values);
}

MeanInterval mean_of_means(std::span<const MeanInterval> means) {
  if (means.empty()) throw std::invalid_argument("mean_of_means: no means");
  const auto k = static_cast<double>(means.size());
  double mean = 0.0, below = 0.0, above = 0.0;
  for (const MeanInterval& one : means) {
    mean += one.mean / k;
    below += std::pow((one.mean - one.low) / k, 2);
    above += std::pow((one.high - one.mean) / k, 2);
  }
  return {mean, mean - std::sqrt(below), mean + std::sqrt(above)};
}

}  // namespace kvloupe
