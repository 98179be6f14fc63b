#include "app/plot/value_axis.h"

#include <algorithm>
#include <cmath>
#include <utility>

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

}  // namespace kvloupe::figure
