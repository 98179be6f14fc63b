#include "analysis/study/study_statistics.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numbers>
#include <numeric>
#include <stdexcept>

#include "analysis/base/text/unknown.h"
#include "analysis/math/numeric/splitmix.h"
#include "analysis/math/numeric/statistics.h"

namespace kvloupe {

namespace {
/// Values that are drawn together.
struct Cluster {
  double sum = 0.0;
  long count = 0;
  void add(const Cluster& other) {
    sum += other.sum;
    count += other.count;
  }
  double mean() const { return sum / static_cast<double>(count); }
};

MeanInterval bootstrap(const std::vector<Cluster>& clusters, std::uint64_t seed) {
  const std::size_t count = clusters.size();
  std::vector<double> means;
  means.reserve(kResamples);
  std::uint64_t state = splitmix(seed);
  for (int i = 0; i < kResamples; ++i) {
    Cluster drawn;
    for (std::size_t j = 0; j < count; ++j) {
      state += kSplitmixStep;
      // The upper half as a fraction of 2^32; a study has far fewer traces than that.
      drawn.add(clusters[((splitmix_output(state) >> 32U) * count) >> 32U]);
    }
    means.push_back(drawn.mean());
  }
  std::sort(means.begin(), means.end());
  constexpr auto kTail = static_cast<std::size_t>(kResamples * 25 / 1000);
  Cluster all;
  for (const Cluster& one : clusters) all.add(one);
  return {all.mean(), means[kTail], means[kResamples - 1 - kTail]};
}

/// One for each value, or for each context, in the order of the contexts' numbers.
std::vector<Cluster> clusters_of(std::span<const double> values, std::span<const int> contexts) {
  std::vector<Cluster> clusters;
  std::map<int, Cluster> by_context;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (contexts.empty()) {
      clusters.push_back({values[i], 1});
    } else {
      by_context[contexts[i]].add({values[i], 1});
    }
  }
  for (const auto& [context, cluster] : by_context) clusters.push_back(cluster);
  return clusters;
}
}  // namespace

MeanInterval bootstrap_mean(std::span<const double> values, std::uint64_t seed) {
  if (values.empty()) throw std::invalid_argument("bootstrap_mean: no values");
  return bootstrap(clusters_of(values, {}), seed);
}

std::vector<double> context_means(std::span<const double> values, std::span<const int> contexts) {
  std::vector<double> means;
  for (const Cluster& one : clusters_of(values, contexts)) means.push_back(one.mean());
  return means;
}

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

namespace {
bool all_0_or_1(std::span<const double> values) {
  return std::all_of(values.begin(), values.end(),
                     [](double value) { return value == 0.0 || value == 1.0; });
}
}  // namespace

MeanInterval mean_interval(std::span<const double> values, bool share,
                           std::span<const int> contexts) {
  const std::vector<Cluster> clusters = clusters_of(values, contexts);
  if (clusters.size() < values.size()) {
    if (clusters.size() > 1) return bootstrap(clusters, kBootstrapSeed);
    return {clusters.front().mean(), kUnknown, kUnknown};
  }
  if (share && all_0_or_1(values))
    return wilson_share(std::count(values.begin(), values.end(), 1.0), std::ssize(values));
  if (values.size() == 1) return {values[0], kUnknown, kUnknown};
  return bootstrap_mean(values);
}

MeanInterval paired_interval(std::span<const double> values, std::span<const double> others,
                             bool share, std::span<const int> contexts) {
  if (values.empty() || values.size() != others.size())
    throw std::invalid_argument("paired_interval: no pairs");
  if (!share || !all_0_or_1(values) || !all_0_or_1(others) ||
      context_means(values, contexts).size() < values.size()) {
    std::vector<double> differences(values.begin(), values.end());
    for (std::size_t i = 0; i < others.size(); ++i) differences[i] -= others[i];
    return mean_interval(differences, false, contexts);
  }
  const auto n = static_cast<double>(values.size());
  const double first = std::accumulate(values.begin(), values.end(), 0.0);
  const double second = std::accumulate(others.begin(), others.end(), 0.0);
  const double both = std::inner_product(values.begin(), values.end(), others.begin(), 0.0);
  // n times the covariance, with Newcombe's correction for continuity, of a table of two by two.
  double product = both * (n - first - second + both) - (first - both) * (second - both);
  if (product > 0.0) product = std::max(product - n / 2, 0.0);
  const double margins = first * (n - first) * second * (n - second);
  const double correlation = margins > 0.0 ? product / std::sqrt(margins) : 0.0;
  const MeanInterval a = wilson_share(std::lround(first), std::ssize(values));
  const MeanInterval b = wilson_share(std::lround(second), std::ssize(others));
  const auto distance = [&](double x, double y) {
    return std::sqrt(std::max(x * x - 2 * correlation * x * y + y * y, 0.0));
  };
  const double mean = a.mean - b.mean;
  return {mean, mean - distance(a.mean - a.low, b.high - b.mean),
          mean + distance(a.high - a.mean, b.mean - b.low)};
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

double student_t95(int degrees) {
  // t² has the F distribution with 1 and `degrees` degrees of freedom.
  double low = 1.9, high = 13.0;  // infinitely many; 1
  constexpr int kHalvings = 50;   // to the last digits of a double
  for (int i = 0; i < kHalvings; ++i) {
    const double t = (low + high) / 2;
    (f_tail(t * t, 1.0, degrees) > 0.05 ? low : high) = t;
  }
  return (low + high) / 2;
}

StudentMean student_mean(std::span<const double> values) {
  StudentMean result;
  double sum = 0.0;
  for (const double value : values) {
    if (!std::isfinite(value)) continue;
    sum += value;
    ++result.count;
  }
  result.mean = result.count > 0 ? sum / result.count : kUnknown;
  result.low = result.high = kUnknown;
  if (result.count < 2) return result;
  double squares = 0.0;
  for (const double value : values) {
    if (std::isfinite(value)) squares += (value - result.mean) * (value - result.mean);
  }
  // A table of many heads has few counts.
  thread_local int known_degrees = 0;
  thread_local double known_t = 0.0;
  if (known_degrees != result.count - 1) {
    known_degrees = result.count - 1;
    known_t = student_t95(known_degrees);
  }
  const double half = known_t * std::sqrt(squares / (result.count - 1.0) / result.count);
  result.low = result.mean - half;
  result.high = result.mean + half;
  return result;
}

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
  if (all_0_or_1(losses)) return binomial_upper_bound(std::lround(sum), count, risk);
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

PolicyRanks rank_policies(std::span<const double> values, int policies, bool larger_is_better,
                          double alpha) {
  const auto k = static_cast<std::size_t>(policies);
  if (policies < 2 || values.size() % k != 0 || values.size() < 2 * k)
    throw std::invalid_argument("rank_policies: at least two policies and two prompts");
  const std::size_t n = values.size() / k;
  std::vector<double> sums(k, 0.0), row(k);
  double squares = 0.0;
  for (std::size_t prompt = 0; prompt < n; ++prompt) {
    for (std::size_t j = 0; j < k; ++j) {
      const double value = values[prompt * k + j];
      if (!std::isfinite(value)) throw std::invalid_argument("rank_policies: unknown value");
      row[j] = larger_is_better ? -value : value;
    }
    const std::vector<double> ranks = ranks_of(row);
    for (std::size_t j = 0; j < k; ++j) {
      sums[j] += ranks[j];
      squares += ranks[j] * ranks[j];
    }
  }
  const auto prompts = static_cast<double>(n);
  const double groups = policies;
  PolicyRanks result;
  result.prompts = static_cast<int>(n);
  double between = 0.0;
  for (const double sum : sums) {
    result.mean_ranks.push_back(sum / prompts);
    const double off = sum - prompts * (groups + 1.0) / 2.0;
    between += off * off;
  }
  const double spread = squares - prompts * groups * (groups + 1.0) * (groups + 1.0) / 4.0;
  if (spread > 0.0) {
    result.chi_squared = (groups - 1.0) * between / spread;
    const double rest = prompts * (groups - 1.0) - result.chi_squared;
    // Ranks are halves of whole numbers, so that full agreement leaves a rounding error at most.
    result.f = rest > 1e-9 * prompts ? (prompts - 1.0) * result.chi_squared / rest
                                     : std::numeric_limits<double>::infinity();
    result.p = f_tail(result.f, groups - 1.0, (groups - 1.0) * (prompts - 1.0));
  }
  result.critical_difference = studentized_range_quantile(1.0 - alpha, policies) /
                               std::numbers::sqrt2 *
                               std::sqrt(groups * (groups + 1.0) / (6.0 * prompts));
  return result;
}

}  // namespace kvloupe
