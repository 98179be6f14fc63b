#include "analysis/duration_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace kvloupe {

std::string duration_text(double seconds) {
  constexpr double kMost = 1e8;  // three years
  const auto whole = [](double value) { return static_cast<int>(std::ceil(value)); };
  const double known = std::isfinite(seconds) ? std::clamp(seconds, 1.0, kMost) : 1.0;
  if (known <= 10.0) return fmt::format("about {} s", whole(known));
  if (known <= 90.0) return fmt::format("about {} s", 10 * whole(known / 10.0));
  const int minutes = whole(known / 60.0);
  if (minutes < 60) return fmt::format("about {} min", minutes);
  if (minutes % 60 == 0) return fmt::format("about {} h", minutes / 60);
  return fmt::format("about {} h {} min", minutes / 60, minutes % 60);
}

}  // namespace kvloupe
