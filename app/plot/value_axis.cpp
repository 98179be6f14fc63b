#include "app/plot/value_axis.h"

#include <algorithm>
#include <cmath>

namespace kvloupe::figure {

void ValueRange::add(double value) {
  if (!std::isfinite(value)) return;
  low = std::min(low, value);
  high = std::max(high, value);
}

void ValueRange::add(std::span<const double> values) {
  for (const double value : values) add(value);
}

ValueRange ValueRange::padded(double share) const {
  if (empty()) return {0.0, 1.0};
  const double pad = high > low ? share * (high - low) : std::max(1e-9, 0.1 * std::abs(high));
  if (high == low && high == 0.0) return {-1.0, 1.0};
  return {low - pad, high + pad};
}

ValueRange ValueRange::from_zero(double share) const {
  if (empty() || (low >= 0.0 && high <= 0.0)) return {0.0, 1.0};
  const double bottom = std::min(0.0, low);
  const double top = std::max(0.0, high);
  return {low < 0.0 ? bottom - share * (top - bottom) : 0.0,
          high > 0.0 ? top + share * (top - bottom) : 0.0};
}

ValueRange ValueRange::padded_log(double share) const {
  if (empty() || !(high > 0.0)) return {1.0, 10.0};
  const double bottom = low > 0.0 ? low : high * 1e-6;
  const double factor = high > bottom ? std::pow(high / bottom, share) : 2.0;
  return {bottom / factor, high * factor};
}

Axis x_axis(std::string label, ValueRange range, AxisScale scale) {
  return {AxisMeaning::value, scale, range.low, range.high, std::move(label)};
}

Axis y_axis(std::string label, ValueRange range, AxisScale scale) {
  return {AxisMeaning::value, scale, range.high, range.low, std::move(label)};
}

Axis name_axis(std::vector<std::string> names, std::string label) {
  Axis axis{AxisMeaning::value, AxisScale::linear, 0.0, static_cast<double>(names.size()),
            std::move(label)};
  axis.names = std::move(names);
  return axis;
}

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
  // All values lie at an end of what they can be: the tenth of the bounds beside it.
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
