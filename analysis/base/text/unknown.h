#pragma once

#include <limits>

namespace kvloupe {

/// A value that was not measured or does not exist. JSON and CSV leave it out; compare with
/// std::isnan.
inline constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

}  // namespace kvloupe
