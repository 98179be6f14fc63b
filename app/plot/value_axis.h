#pragma once
// Axes of numbers and of named things.

#include <limits>
#include <span>
#include <string>
#include <vector>

#include "app/scene/scene.h"

namespace kvloupe::figure {

/// The least and the greatest of the finite numbers it was shown.
struct ValueRange {
  double low = std::numeric_limits<double>::infinity();
  double high = -std::numeric_limits<double>::infinity();
  void add(double value);
  void add(std::span<const double> values);
  bool empty() const { return !(low <= high); }
  /// With room around for marks; 0 to 1 if it is empty; never of length 0.
  ValueRange padded(double share = 0.05) const;
  /// From 0 (or below), with room above.
  ValueRange from_zero(double share = 0.05) const;
  /// For log axes: over the positive numbers, 1 to 10 if there are none. Call it only on a range of
  /// positive numbers.
  ValueRange padded_log(double share = 0.05) const;
};

/// Low at the left.
Axis x_axis(std::string label, ValueRange range, AxisScale scale = AxisScale::linear);
/// Low at the bottom.
Axis y_axis(std::string label, ValueRange range, AxisScale scale = AxisScale::linear);
/// One cell for each name, the first at the left or at the top.
Axis name_axis(std::vector<std::string> names, std::string label = {});

}  // namespace kvloupe::figure
