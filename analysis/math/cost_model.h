#pragma once

#include <functional>
#include <string_view>

namespace kvloupe {

/// Operations of one KeyDiff step of one head, as appendix A.2.1 of KeyDiff counts them; neither
/// the paper nor this count includes top-k.
struct OperationCount {
  double multiplications = 0.0;
  double additions = 0.0;
  double divisions = 0.0;
  double square_roots = 0.0;
  /// At the paper's weights, 1, 1, 5 and 8: (6d + 18)n + d + 17 (eq. A.1).
  double flops() const {
    return multiplications + additions + 5.0 * divisions + 8.0 * square_roots;
  }
};

/// n entries of d coordinates. The counts are the paper's. The paper gives 3nd − n − 1 additions,
/// but its own list adds up to 3nd − 2n − 1.
inline OperationCount keydiff_operations(double n, double d) {
  return {3.0 * n * d + d + n, 3.0 * n * d - n - 1.0, 2.0 * n + 2.0, n + 1.0};
}

/// One step of one head: the sizes that the orders of table 4 depend on.
struct StepShape {
  double entries = 0.0;  // n = N + B, the cache after the block is appended
  double block = 0.0;    // B, queries of the step
};

/// One line of KeyDiff's table 4: how the cost grows with the step's shape, without the constants
/// that an order hides.
struct CostOrder {
  std::string_view runtime;  // as printed, e.g. "O(N + B)"
  std::string_view memory;
  std::function<double(const StepShape&)> runtime_units;
  std::function<double(const StepShape&)> memory_units;
  /// The operations of a step, where the paper counts them.
  OperationCount (*operations)(double n, double d) = nullptr;
};

}  // namespace kvloupe
