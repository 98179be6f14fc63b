#include "analysis/metric/two_stage_bound.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <vector>

namespace kvloupe {

namespace {
constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

double sum_over(std::span<const double> attention, std::span<const std::int32_t> rows) {
  double sum = 0.0;
  for (const std::int32_t row : rows) sum += attention[static_cast<std::size_t>(row)];
  return sum;
}

double weighted_norms(std::span<const double> attention, std::span<const float> norms,
                      std::span<const std::int32_t> rows) {
  double sum = 0.0;
  for (const std::int32_t row : rows) {
    const auto i = static_cast<std::size_t>(row);
    sum += attention[i] * static_cast<double>(norms[i]);
  }
  return sum;
}
}  // namespace

TwoStageBound two_stage_bound(std::span<const double> attention, std::span<const float> norms,
                              std::span<const std::int32_t> stage_one,
                              std::span<const std::int32_t> stage_two) {
  TwoStageBound result;
  result.mass = sum_over(attention, stage_one);
  result.bound = result.relaxed = kUnknown;
  if (norms.empty()) return result;
  if (result.mass <= 0.0) {
    result.bound = std::numeric_limits<double>::infinity();
    return result;
  }
  double all = 0.0;
  for (std::size_t i = 0; i < attention.size(); ++i) {
    all += attention[i] * static_cast<double>(norms[i]);
  }
  const double factor = 2.0 - 1.0 / result.mass;
  const double one = weighted_norms(attention, norms, stage_one);
  result.bound = all - factor * (one + weighted_norms(attention, norms, stage_two));
  if (result.mass > 0.5) {
    const auto least = static_cast<double>(*std::min_element(norms.begin(), norms.end()));
    result.relaxed = all - factor * (one + least * sum_over(attention, stage_two));
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

}  // namespace kvloupe
