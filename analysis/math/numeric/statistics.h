#pragma once
// Distributions that tests of significance need.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace kvloupe {

/// P(F ≥ x) of the F distribution with these degrees of freedom, all positive: the regularised
/// incomplete beta function I_y(d₂/2, d₁/2) at y = d₂/(d₂ + d₁x), by Lentz's continued fraction
/// (Abramowitz and Stegun 26.5.8, 26.6.2). 1 for x ≤ 0, 0 for infinity.
double f_tail(double x, double d1, double d2);

/// P(Q ≤ q) of the studentized range of `groups` ≥ 2 means with infinitely many degrees of freedom:
/// k ∫ φ(z) [Φ(z + q) − Φ(z)]^(k−1) dz.
double studentized_range(double q, int groups);

/// The q at which studentized_range() is `share`, 0 < share < 1.
double studentized_range_quantile(double share, int groups);

/// Ranks from 1 in ascending order; equal values share the mean of their ranks. Throws
/// std::invalid_argument for NaN.
std::vector<double> ranks_of(std::span<const double> values);

/// How much two sets share.
struct SetOverlap {
  std::size_t both = 0;    // |A ∩ B|
  std::size_t either = 0;  // |A ∪ B|

  /// The Jaccard index |A ∩ B| / |A ∪ B|; `of_empty` where both sets are empty.
  double jaccard(double of_empty = 1.0) const;
};

/// The overlap of two sets of numbers, each ascending.
SetOverlap set_overlap(std::span<const std::int32_t> a, std::span<const std::int32_t> b);

/// The overlap of A and B among the numbers `first` to `end` − 1; `in_a(number)` and `in_b(number)`
/// say whether a number is in a set.
template <typename InA, typename InB>
SetOverlap set_overlap(std::int32_t first, std::int32_t end, const InA& in_a, const InB& in_b) {
  SetOverlap result;
  for (std::int32_t number = first; number < end; ++number) {
    const bool a = in_a(number), b = in_b(number);
    if (a && b) ++result.both;
    if (a || b) ++result.either;
  }
  return result;
}

}  // namespace kvloupe
