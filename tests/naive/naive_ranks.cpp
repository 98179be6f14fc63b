#include "tests/naive/naive_ranks.h"

#include <cmath>
#include <cstddef>

namespace kvloupe::naive {

namespace {
std::vector<double> ranks(const std::vector<double>& values, bool larger_is_better) {
  std::vector<double> result;
  for (std::size_t j = 0; j < values.size(); ++j) {
    double rank = 1.0;
    for (std::size_t other = 0; other < values.size(); ++other) {
      if (other == j) continue;
      if (values[other] == values[j]) {
        rank += 0.5;
      } else if ((values[other] > values[j]) == larger_is_better) {
        rank += 1.0;
      }
    }
    result.push_back(rank);
  }
  return result;
}
}  // namespace

std::vector<double> mean_ranks(const std::vector<std::vector<double>>& values,
                               bool larger_is_better) {
  std::vector<double> mean(values.front().size(), 0.0);
  for (const std::vector<double>& row : values) {
    const std::vector<double> of_row = ranks(row, larger_is_better);
    for (std::size_t j = 0; j < mean.size(); ++j)
      mean[j] += of_row[j] / static_cast<double>(values.size());
  }
  return mean;
}

double friedman(const std::vector<std::vector<double>>& values, bool larger_is_better) {
  const auto k = static_cast<double>(values.front().size());
  const auto n = static_cast<double>(values.size());
  const double middle = (k + 1.0) / 2.0;
  double between = 0.0, within = 0.0;
  for (const double mean : mean_ranks(values, larger_is_better))
    between += (mean - middle) * (mean - middle);
  for (const std::vector<double>& row : values) {
    for (const double rank : ranks(row, larger_is_better))
      within += (rank - middle) * (rank - middle) / (k - 1.0);
  }
  return n * n * between / within;
}

double f_tail(double x, double d1, double d2) {
  // With F = t², the density of t has no pole at 0 for d1 = 1.
  const double log_constant = std::lgamma((d1 + d2) / 2) - std::lgamma(d1 / 2) -
                              std::lgamma(d2 / 2) + d1 / 2 * std::log(d1 / d2);
  const auto density = [&](double t) {
    const double f = t * t;
    if (f == 0.0) return d1 == 1.0 ? 2.0 * std::exp(log_constant) : 0.0;
    return 2.0 * t *
           std::exp(log_constant + (d1 / 2 - 1) * std::log(f) -
                    (d1 + d2) / 2 * std::log1p(d1 * f / d2));
  };
  constexpr int kSteps = 200'000;
  const double end = std::sqrt(x), step = end / kSteps;
  double sum = 0.0;
  for (int i = 0; i < kSteps; ++i) sum += density((i + 0.5) * step) * step;
  return 1.0 - sum;
}

}  // namespace kvloupe::naive
