#include "analysis/metric/tightness.h"

#include <cmath>
#include <limits>

namespace kvloupe {

double tightness(double perturbation, double bound) {
  // Below it, terms of the bound may be too small for all their digits, and so may the quotient's.
  constexpr double kLeast =
      std::numeric_limits<double>::min() / std::numeric_limits<double>::epsilon();
  return bound >= kLeast && std::isfinite(bound) ? perturbation / bound
                                                 : std::numeric_limits<double>::quiet_NaN();
}

}  // namespace kvloupe
