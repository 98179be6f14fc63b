#include "analysis/metric/cost_model.h"

namespace kvloupe {

OperationCount keydiff_operations(double n, double d) {
  return {3.0 * n * d + d + n, 3.0 * n * d - n - 1.0, 2.0 * n + 2.0, n + 1.0};
}

}  // namespace kvloupe
