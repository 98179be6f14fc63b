#pragma once
// Axes of numbers and of named things.

#include <limits>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "app/plot/frame.h"
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

// How far the limits of a colour bar or an axis may go: a share ends at 1, even after rounding,
// padding, typing or dragging.

/// The range that a value can have.
struct Bounds {
  double least = -std::numeric_limits<double>::infinity();
  double most = std::numeric_limits<double>::infinity();
};
inline constexpr Bounds kShare{0.0, 1.0};  // of a whole; a probability
inline constexpr Bounds kPercent{0.0, 100.0};
inline constexpr Bounds kCosine{-1.0, 1.0};

/// Cuts a scale's limits to the bounds, then applies the limits that a person chose, as far as
/// values can lie there; the limits of a signed scale are symmetric. Keeps the scale's own limits
/// if none are chosen, or if values cannot lie in the chosen range.
void choose_limits(ColourScale& scale, const std::optional<std::pair<double, double>>& chosen,
                   Bounds bounds = {});

/// The part of a range within the bounds.
ValueRange within(const ValueRange& range, Bounds bounds);

/// The limits of an axis of cosines whose sign matters: as wide as the data and 0, with room.
ValueRange cosines_and_zero(ValueRange range);

}  // namespace kvloupe::figure
