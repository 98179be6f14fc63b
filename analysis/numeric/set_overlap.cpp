#include "analysis/numeric/set_overlap.h"

namespace kvloupe {

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
