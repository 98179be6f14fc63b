#include "analysis/study/policy_ranks.h"

#include <cmath>
#include <limits>
#include <numbers>
#include <stdexcept>

#include "analysis/numeric/statistics.h"

namespace kvloupe {

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
