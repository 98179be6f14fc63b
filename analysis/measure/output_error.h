#pragma once

#include <cstddef>

#include "analysis/record/records.h"

namespace kvloupe {

/// Sums over queries and query heads, before W_O; those of several heads may be added.
struct SquaredError {
  double error = 0.0;   // Σ‖o − o′‖²
  double output = 0.0;  // Σ‖o‖²
  /// error / output, the normalised output error (ours); NaN where there is no output.
  double share() const;
};

/// Over the last queries of the steps from the first eviction on (without one: of the last step).
/// Zero without metrics.
SquaredError squared_error(const HeadReplay& head);
/// The same from a step on.
SquaredError squared_error(const HeadReplay& head, std::size_t first_step);

}  // namespace kvloupe
