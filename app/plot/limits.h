#pragma once
// How far the limits of a colour bar or an axis may go: a share ends at 1, even after rounding,
// padding, typing or dragging.

#include <limits>
#include <optional>
#include <utility>

#include "app/plot/frame.h"
#include "app/plot/value_axis.h"

namespace kvloupe::figure {

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
