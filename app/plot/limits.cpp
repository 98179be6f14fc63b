#include "app/plot/limits.h"

#include <algorithm>
#include <cmath>

namespace kvloupe::figure {

void choose_limits(ColourScale& scale, const std::optional<std::pair<double, double>>& chosen,
                   Bounds bounds) {
  constexpr double smallest = 1e-30;  // on a log scale
  scale.low = std::max(scale.low, bounds.least);
  scale.high = std::min(scale.high, bounds.most);
  if (!chosen) return;
  double low = std::max(chosen->first, bounds.least);
  double high = std::min(chosen->second, bounds.most);
  if (scale.is_signed) {
    const double reach = std::max({std::abs(chosen->first), std::abs(chosen->second), 1e-6});
    high = std::min(reach, bounds.most);
    low = -high;
  }
  if (scale.scale == AxisScale::log) low = std::max(low, smallest);
  if (!(low < high)) return;
  scale.low = low;
  scale.high = high;
}

ValueRange within(const ValueRange& range, Bounds bounds) {
  ValueRange cut{std::max(range.low, bounds.least), std::min(range.high, bounds.most)};
  if (cut.low < cut.high) return cut;
  // All values lie at an end of their possible range: the tenth of the bounds beside it.
  const double width = (bounds.most - bounds.least) / 10.0;
  if (!std::isfinite(width)) return range;
  cut.low = std::clamp(cut.low, bounds.least, bounds.most - width);
  cut.high = cut.low + width;
  return cut;
}

ValueRange cosines_and_zero(ValueRange range) {
  if (range.empty()) return {-1.0, 1.0};
  range.add(0.0);
  return within(range.padded(), kCosine);
}

}  // namespace kvloupe::figure
