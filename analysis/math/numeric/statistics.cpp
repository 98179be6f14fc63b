#include "analysis/math/numeric/statistics.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numbers>
#include <numeric>
#include <stdexcept>

namespace kvloupe {

namespace {

/// The continued fraction of I_x(a, b), which converges fast for x < (a + 1)/(a + b + 2).
double beta_fraction(double x, double a, double b) {
  constexpr double kTiny = 1e-300;
  constexpr int kMostTerms = 10'000;
  double c = 1.0;
  double d = 1.0 - (a + b) * x / (a + 1.0);
  d = 1.0 / (std::abs(d) < kTiny ? kTiny : d);
  double fraction = d;
  const auto step = [&](double numerator) {
    d = 1.0 + numerator * d;
    d = 1.0 / (std::abs(d) < kTiny ? kTiny : d);
    c = 1.0 + numerator / c;
    if (std::abs(c) < kTiny) c = kTiny;
    fraction *= c * d;
    return std::abs(c * d - 1.0);
  };
  for (int m = 1; m <= kMostTerms; ++m) {
    step(m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)));
    if (step(-(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))) < 1e-15) break;
  }
  return fraction;
}

/// The regularised incomplete beta function.
double incomplete_beta(double x, double a, double b) {
  if (x <= 0.0) return 0.0;
  if (x >= 1.0) return 1.0;
  const double front = std::exp(std::lgamma(a + b) - std::lgamma(a) - std::lgamma(b) +
                                a * std::log(x) + b * std::log1p(-x));
  if (x < (a + 1.0) / (a + b + 2.0)) return front * beta_fraction(x, a, b) / a;
  return 1.0 - front * beta_fraction(1.0 - x, b, a) / b;
}

double normal(double z) { return 0.5 * std::erfc(-z / std::numbers::sqrt2); }

}  // namespace

double f_tail(double x, double d1, double d2) {
  if (!(d1 > 0.0) || !(d2 > 0.0)) throw std::invalid_argument("f_tail: degrees of freedom");
  if (!(x > 0.0)) return 1.0;
  if (std::isinf(x)) return 0.0;
  return incomplete_beta(d2 / (d2 + d1 * x), d2 / 2.0, d1 / 2.0);
}

double studentized_range(double q, int groups) {
  if (groups < 2) throw std::invalid_argument("studentized_range: at least two groups");
  if (!(q > 0.0)) return 0.0;
  // Simpson's rule, where the density of the least of the means is not negligible.
  constexpr double kFar = 9.0;
  constexpr int kSteps = 2'000;  // even
  constexpr double kStep = 2.0 * kFar / kSteps;
  double sum = 0.0;
  for (int i = 0; i <= kSteps; ++i) {
    const double z = -kFar + i * kStep;
    const double weight = i == 0 || i == kSteps ? 1.0 : i % 2 == 1 ? 4.0 : 2.0;
    sum += weight * std::exp(-z * z / 2.0) * std::pow(normal(z + q) - normal(z), groups - 1);
  }
  const double density = std::numbers::inv_sqrtpi / std::numbers::sqrt2;
  return std::min(1.0, groups * density * sum * kStep / 3.0);
}

double studentized_range_quantile(double share, int groups) {
  if (!(share > 0.0 && share < 1.0)) throw std::invalid_argument("studentized_range_quantile");
  double low = 0.0, high = 1.0;
  while (studentized_range(high, groups) < share && high < 64.0) high *= 2.0;
  for (int i = 0; i < 60; ++i) {
    const double middle = (low + high) / 2.0;
    (studentized_range(middle, groups) < share ? low : high) = middle;
  }
  return (low + high) / 2.0;
}

std::vector<double> ranks_of(std::span<const double> values) {
  if (std::any_of(values.begin(), values.end(), [](double v) { return std::isnan(v); })) {
    throw std::invalid_argument("ranks_of: not a number");
  }
  std::vector<std::size_t> order(values.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(),
            [&](std::size_t a, std::size_t b) { return values[a] < values[b]; });
  std::vector<double> ranks(values.size());
  for (std::size_t first = 0; first < order.size();) {
    std::size_t end = first + 1;
    while (end < order.size() && values[order[end]] == values[order[first]]) ++end;
    const double shared = 0.5 * static_cast<double>(first + 1 + end);
    for (std::size_t i = first; i < end; ++i) ranks[order[i]] = shared;
    first = end;
  }
  return ranks;
}

double SetOverlap::jaccard(double of_empty) const {
  return either == 0 ? of_empty : static_cast<double>(both) / static_cast<double>(either);
}

SetOverlap set_overlap(std::span<const std::int32_t> a, std::span<const std::int32_t> b) {
  SetOverlap result;
  for (std::size_t i = 0, j = 0; i < a.size() && j < b.size();) {
    if (a[i] == b[j]) ++result.both;
    const bool next_a = a[i] <= b[j];
    if (b[j] <= a[i]) ++j;
    if (next_a) ++i;
  }
  result.either = a.size() + b.size() - result.both;
  return result;
}

}  // namespace kvloupe
