#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace kvloupe {

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
