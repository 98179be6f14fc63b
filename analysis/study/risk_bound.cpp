#include "analysis/study/risk_bound.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <stdexcept>

namespace kvloupe {

namespace {
/// P(Bin(count, p) ≤ most), 0 < p < 1, summed from its logarithms.
double binomial_at_most(long most, long count, double p) {
  if (most >= count) return 1.0;
  double sum = 0.0;
  for (long k = 0; k <= most; ++k) {
    sum += std::exp(std::lgamma(count + 1.0) - std::lgamma(k + 1.0) -
                    std::lgamma(static_cast<double>(count - k) + 1.0) +
                    static_cast<double>(k) * std::log(p) +
                    static_cast<double>(count - k) * std::log1p(-p));
  }
  return std::min(sum, 1.0);
}

/// The largest a in [from, 1] with `chance`(a) ≥ risk, where the chance falls.
template <typename Chance>
double largest_with(double from, double risk, const Chance& chance) {
  constexpr int kHalvings = 60;
  double low = from, high = 1.0;
  for (int i = 0; i < kHalvings; ++i) {
    const double middle = 0.5 * (low + high);
    (chance(middle) >= risk ? low : high) = middle;
  }
  return high;
}

/// Kullback and Leibler's divergence of two coins, 0 ln 0 = 0; x ≤ y < 1.
double divergence(double x, double y) {
  const double first = x > 0.0 ? x * std::log(x / y) : 0.0;
  return first + (1.0 - x) * (std::log1p(-x) - std::log1p(-y));
}
}  // namespace

double binomial_upper_bound(long wrong, long count, double risk) {
  if (count < 1) throw std::invalid_argument("binomial_upper_bound: no values");
  if (wrong >= count) return 1.0;
  const double share = static_cast<double>(wrong) / static_cast<double>(count);
  return largest_with(share, risk, [&](double p) { return binomial_at_most(wrong, count, p); });
}

double mean_upper_bound(std::span<const double> losses, double risk) {
  if (losses.empty()) throw std::invalid_argument("mean_upper_bound: no losses");
  const long count = std::ssize(losses);
  const double sum = std::accumulate(losses.begin(), losses.end(), 0.0);
  if (std::all_of(losses.begin(), losses.end(),
                  [](double loss) { return loss == 0.0 || loss == 1.0; }))
    return binomial_upper_bound(std::lround(sum), count, risk);
  const double mean = std::min(sum / static_cast<double>(count), 1.0);
  const long whole = static_cast<long>(std::ceil(sum));
  return largest_with(mean, risk, [&](double a) {
    const double hoeffding =
        std::exp(-static_cast<double>(count) * divergence(std::min(mean, a), a));
    return std::min(hoeffding, std::exp(1.0) * binomial_at_most(whole, count, a));
  });
}

double conformal_mean(std::span<const double> losses) {
  const double sum = std::accumulate(losses.begin(), losses.end(), 0.0);
  return (sum + 1.0) / (static_cast<double>(losses.size()) + 1.0);
}

long fewest_prompts(double at_most, double risk) {
  return static_cast<long>(std::ceil(std::log(risk) / std::log1p(-at_most)));
}

}  // namespace kvloupe
