#include "analysis/metric/two_stage_bound.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <vector>

#include "analysis/unknown.h"

namespace kvloupe {

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
