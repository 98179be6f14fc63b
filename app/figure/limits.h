#pragma once
// How far the limits of a colour bar or an axis may go: a share ends at 1, however they are
// rounded, padded, typed or dragged.

#include <limits>
#include <optional>
#include <utility>

#include "app/figure/frame.h"
#include "app/figure/value_axis.h"

namespace kvloupe::figure {

/// What a value can be at all.
struct Bounds {
  double least = -std::numeric_limits<double>::infinity();
  double most = std::numeric_limits<double>::infinity();
};
inline constexpr Bounds kShare{0.0, 1.0};  // of a whole; a probability
inline constexpr Bounds kPercent{0.0, 100.0};
inline constexpr Bounds kCosine{-1.0, 1.0};

/// Cuts a scale's limits to the bounds, then takes the limits a person has chosen, as far as values
/// can lie there; those of a signed scale are symmetric. Keeps the scale's own where nothing is
/// chosen, or only what no value can be.
void choose_limits(ColourScale& scale, const std::optional<std::pair<double, double>>& chosen,
                   Bounds bounds = {});

/// The part of a range within the bounds.
ValueRange within(const ValueRange& range, Bounds bounds);

}  // namespace kvloupe::figure
